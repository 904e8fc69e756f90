"""A plan as text: before and after, the layout, why, what to set."""

from typing import TYPE_CHECKING

from pgstow.cli.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgstow.model import Plan, Profile
    from pgstow.planning import Changes, Move


def lines(
    found: "Plan", profile: "Profile", changes: "Changes", *, width: int | None = None
) -> "Iterator[str]":
    """A plan as text: before and after, then the layout, what changes, and the reasons."""
    from pgstow.cli.explain_lines import lines as explain_lines
    from pgstow.units import format_usd

    before, after = found.present.performance, found.prediction.performance
    yield "                       present       planned"
    rows = [
        ("TPS", f"{before.tps:,.0f}", f"{after.tps:,.0f}"),
        ("latency mean", _ms(before.latency_ms.mean), _ms(after.latency_ms.mean)),
        ("latency p99", _ms(before.latency_ms.p99), _ms(after.latency_ms.p99)),
        ("commit p99", _ms(before.commit_ms.p99), _ms(after.commit_ms.p99)),
        ("$/month", format_usd(before.usd_month), format_usd(after.usd_month)),
        *_instance_rows(found),
        ("$/1000 TPS", format_usd(before.usd_per_1000_tps), format_usd(after.usd_per_1000_tps)),
    ]
    for name, one, other in rows:
        yield f"  {name:<14}{one:>14}{other:>14}"
    if found.proof is not None:
        yield found.proof
    yield ""
    yield from explain_lines(found.prediction, profile, width=width)
    yield from _headroom(found)
    yield ""
    yield from changes_lines(changes)
    yield "Why:"
    for reason in found.reasons:
        cost = reason.next_best_usd_month
        price = "" if cost is None else f" for {format_usd(cost)} more per month"
        between = "of" if reason.subject == "moves" else "on"
        if reason.subject == "instance" or reason.subject.startswith("volume "):
            between = "is"
        yield f"  {shown(reason.subject)} {between} {reason.choice}: {reason.because}"
        yield f"      next best: {reason.next_best}{price}"
    yield from settings_lines(found)


def _headroom(found: "Plan") -> "Iterator[str]":
    """How full limits are at the goal's speed, beside those above, at the predicted one."""
    from pgstow import planning

    full = planning.bottleneck(found)
    if full is None:
        return
    yield (
        f"  At the goal's {full.tps:,.0f} TPS {shown(full.where)} is used most,"
        f" {full.used:.0%} of its limit; the figures above are at"
        f" {found.prediction.performance.tps:,.0f} TPS, as fast as the clients ask"
    )


def _instance_rows(found: "Plan") -> "Iterator[tuple[str, str, str]]":
    """What the instances cost, where the plan has another one or chose it."""
    from pgstow.units import format_usd

    present, planned = found.present.layout.host, found.layout.host
    if not found.goal.any_instance and present.instance == planned.instance:
        return
    yield "instance", present.instance or "not known", planned.instance or "not known"
    usd = found.present_instance_usd_month, found.instance_usd_month
    yield "its $/month", format_usd(usd[0]), format_usd(usd[1])
    volumes = found.present.performance.usd_month, found.prediction.performance.usd_month
    both = [None if a is None or b is None else a + b for a, b in zip(usd, volumes, strict=True)]
    yield "together", format_usd(both[0]), format_usd(both[1])


def changes_lines(changes: "Changes") -> "Iterator[str]":
    """What becomes of each volume, and what moves."""
    from pgstow.units import format_size

    volumes = [f"{shown(name)} in place: {text}" for name, text in changes.in_place]
    volumes += [f"{shown(name)} is new" for name in changes.bought]
    volumes += [f"{shown(name)} is dropped" for name in changes.dropped]
    if not volumes and not changes.moves:
        yield "Changes: none"
    else:
        yield "Changes:"
        yield from (f"  {line}" for line in volumes)
        yield from (f"  {_move(move)}" for move in changes.moves)
        if len(changes.moves) > 1 and changes.moved_bytes:
            yield f"  {format_size(changes.moved_bytes)} move in all"
    yield ""


def _move(move: "Move") -> str:
    from pgstow.units import format_size

    what = {"wal": "pg_wal", "temp": "temporary files"}.get(move.what, "")
    if move.what == "relations":
        what = "1 relation" if move.relations == 1 else f"{move.relations:,} relations"
    size = "" if move.bytes is None else f", {format_size(move.bytes)}"
    return f"{what} from {shown(move.from_volume)} to {shown(move.to_volume)}{size}"


def settings_lines(found: "Plan") -> "Iterator[str]":
    """What to set, each with its reason and its source."""
    if not found.settings:
        return
    yield ""
    yield "Settings:"
    for one in found.settings:
        where = f"  (tablespace {shown(one.tablespace)})" if one.tablespace is not None else ""
        now = "" if one.present is None else f", now {one.present}"
        yield f"  {one.name} = {one.value}{now}{where}"
        yield f"      {shown(one.because)} ({one.source})"


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f} ms"
