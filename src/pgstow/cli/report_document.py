"""What a workspace has for a page: one cycle of the loop, and the experiments."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.catalog import Catalog
    from pgstow.cli.loop import Loop
    from pgstow.model import Layout, Measurement, Prediction, Profile, Warning
    from pgstow.model.statistics import Effect
    from pgstow.report import ExperimentSection, ReportDocument, StepOutcome, VolumePrice
    from pgstow.workspace import Entry
    from pgstow.workspace import Workspace as Store


def document_of(
    store: "Store",
    rules: "Catalog",
    *,
    title: str | None = None,
    before: str | None = None,
    after: str | None = None,
) -> "ReportDocument":
    """All that a workspace has for a page; the profiles before and after can be chosen."""
    from pgstow import verification
    from pgstow.cli.bench_report import sections_of
    from pgstow.cli.loop import loop_of
    from pgstow.cli.profiles import profile_of
    from pgstow.cli.report_again import commands, layout_files
    from pgstow.report import ReportDocument

    found = loop_of(store, before, after)
    experiments = sections_of(store, rules)
    profile = profile_of(store, found.before) if found.before else None
    later = profile_of(store, found.after) if found.after else None
    was, now = _measured(store, rules, found.before), _measured(store, rules, found.after)
    if now is not None and found.applied is not None and found.applied.layout is not None:
        now = _on(now, found.applied.layout)
    predicted = _predicted(store, found, was, now)
    known = profile or later
    steps = _steps(store, found)
    plan = found.plan
    if not experiments and not steps and all(x is None for x in (known, plan, predicted)):
        raise UserError(
            "the workspace holds nothing to report", "run pgstow observe or pgstow bench first"
        )
    against = now or (was if plan is None else None)
    document = ReportDocument(
        title=title or (_title(known) if known or not experiments else _named(experiments)),
        generated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        server_version=known.server.version if known else None,
        machine=_machine(known, rules) if known else None,
        profile=profile,
        profile_after=later,
        before=was,
        after=now,
        applied=found.applied.layout if found.applied else None,
        predicted=predicted,
        plan=plan,
        steps=steps,
        comparisons=verification.compare(
            predicted.performance, against.performance, tps_interval=predicted.tps_interval
        )
        if predicted and against
        else (),
        effect=_effect(was, now),
        tps_interval_before=_interval(was),
        tps_interval_after=_interval(now),
        warnings=_warnings(found, profile, later),
        experiments=experiments,
    )
    document = replace(
        document,
        commands=commands(document, found),
        layout_files=layout_files(document),
    )
    return _with_prices(document, rules)


def _measured(store: "Store", rules: "Catalog", entry: "Entry | None") -> "Measurement | None":
    """What was measured with a profile; else what the profile itself says."""
    from pgstow.cli.loop import measured_with
    from pgstow.cli.profiles import profile_of
    from pgstow.cli.verify import measure
    from pgstow.model import Provenance

    if entry is None:
        return None
    stored = measured_with(store, entry)
    if stored is not None:
        return stored
    profile = profile_of(store, entry)
    # Whether its volumes were emulated cannot be known any more: it says no more than observed.
    seen = Provenance("observed", "PostgreSQL's statistics", profile.started_at[:10])
    return measure(profile, profile.layout, rules, seen)


def _on(measured: "Measurement", layout: "Layout") -> "Measurement":
    """A measurement as one of the layout that was applied, where its volumes are those."""
    names = {volume.name for volume in layout.volumes}
    if measured.layout == layout or any(load.volume not in names for load in measured.volumes):
        return measured
    return replace(measured, layout=layout)


def _predicted(
    store: "Store", found: "Loop", was: "Measurement | None", now: "Measurement | None"
) -> "Prediction | None":
    """The prediction of what was made or planned; of an observation alone its own."""
    from pgstow.model import Prediction

    target = now.layout if now else None
    if target is None and found.applied is not None:
        target = found.applied.layout
    if target is None:
        target = found.plan.layout if found.plan else was.layout if was else None
    if found.plan is not None and found.plan.layout == target:
        return found.plan.prediction
    for entry in reversed(store.list("prediction")):
        one = store.get("prediction", entry.id, Prediction)
        if one is not None and one.layout == target:
            return one
    return None


def _warnings(
    found: "Loop", profile: "Profile | None", later: "Profile | None"
) -> "tuple[Warning, ...]":
    """What the page itself has to say of its parts."""
    from pgstow import verification
    from pgstow.model import Warning

    warnings: list[Warning] = []
    if found.applied is not None and profile is None:
        warnings.append(
            Warning(
                "no-before",
                "no profile was over when the layout was applied: nothing shows what it was before",
                "choose one with --before; next time run pgstow observe first",
            )
        )
    for one in (profile, later):
        if one is not None:
            warnings += verification.unexplained_warnings(one)
    return tuple(dict.fromkeys(warnings))


def _title(profile: "Profile | None") -> str:
    """The title names the database that asks the most."""
    if profile is None:
        return "Storage of a PostgreSQL server"
    asked: dict[str, float] = {}
    for demand in profile.demands:
        name = demand.relation.database
        asked[name] = asked.get(name, 0.0) + demand.blocks + demand.buffer_hits.mean
    for relation in profile.server.relations:  # where nothing is asked, the largest
        asked[relation.id.database] = asked.get(relation.id.database, 0.0) + (
            relation.size_bytes * 1e-18
        )
    names = [name for name in profile.server.databases if name != "postgres"]
    names = sorted(names or profile.server.databases, key=lambda name: -asked.get(name, 0.0))
    if not names:
        return "Storage of a PostgreSQL server"
    more = f", the busiest of {len(names)} databases" if len(names) > 1 else ""
    return f"Storage of {names[0]}{more}"


def _named(experiments: "Sequence[ExperimentSection]") -> str:
    """The title of a page that has nothing but experiments."""
    titles = list(dict.fromkeys(one.experiment.title for one in experiments))
    return titles[0] if len(titles) == 1 else "Experiments on PostgreSQL's storage"


def _machine(profile: "Profile", rules: "Catalog") -> str | None:
    """What the layout says of the instance, and what the machine has where that is another."""
    from pgstow.units import format_size

    spec, host = profile.layout.host, profile.host
    named = " ".join(part for part in (spec.platform, spec.instance, spec.region) if part)
    if host is None:
        return named or None
    has = f"{host.cores} cores, {format_size(host.memory_bytes)}"
    cores = rules.cores(spec) if spec.instance else None
    if cores is not None and cores != host.cores:
        return f"{named} ({cores} cores) in the layout, observed on a machine of {has}"
    return " ".join(part for part in (named, has) if part)


def _steps(store: "Store", found: "Loop") -> "tuple[StepOutcome, ...]":
    """What the journal says of the run; lapsed plans of it are left out."""
    from pgstow.report import StepOutcome

    if found.applied is None:
        return ()
    return tuple(
        StepOutcome(record.step, record.status, record.seconds, record.bytes, record.note)
        for record in store.journal.steps(found.applied.run.id)
        if not (record.status == "skipped" and record.note == "planned again")
    )


def _effect(before: "Measurement | None", after: "Measurement | None") -> "Effect | None":
    from pgstow import verification

    if before is None or after is None or before.layout == after.layout:
        return None
    one = [value for value in before.tps_samples if value > 0]
    other = [value for value in after.tps_samples if value > 0]
    return verification.effect(one, other) if one and other else None


def _interval(measured: "Measurement | None") -> tuple[float, float] | None:
    from pgstow import verification

    found = verification.mean_interval(measured.tps_samples) if measured else None
    return (found.low, found.high) if found else None


def _with_prices(document: "ReportDocument", rules: "Catalog") -> "ReportDocument":
    from dataclasses import replace

    before, after = document.layout_before, document.layout_after
    return replace(
        document,
        prices_before=_prices(before, rules) if before else (),
        prices_after=_prices(after, rules) if after else (),
    )


def _prices(layout: "Layout", rules: "Catalog") -> "tuple[VolumePrice, ...]":
    from pgstow.report import VolumePrice

    found = []
    for volume in layout.volumes:
        price = rules.volume_type(volume.type).price_in(layout.host.region)
        known = rules.price(volume, layout.host)
        origin = price.provenance if price and known.usd_month is not None else None
        found.append(VolumePrice(volume.name, known, origin))
    return tuple(found)
