"""Profiles in the workspace: named, listed, chosen, merged; and which are before and after."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pgstow import observe
from pgstow.cli import profiles
from pgstow.cli.loop import last_applied, loop_of, remember_layout
from pgstow.cli.main import app
from pgstow.cli.observe import _relations
from pgstow.cli.output import console
from pgstow.cli.verify import expected
from pgstow.layout_file import format_layout, layout_digest, read_layout
from pgstow.model import (
    HostSpec,
    Layout,
    Placement,
    Profile,
    Rate,
    Step,
    UserError,
    Volume,
)
from pgstow.observe.merging import mean_of_all, rate_of_all
from pgstow.units import GIB, Bytes, BytesPerSecond, Iops
from pgstow.workspace import Workspace

TOLD = "2026-11-20T12:00:00+00:00"


def at(minutes: float, **changes: object) -> Profile:
    """A profile of five minutes that began so long ago."""
    began = datetime.now(UTC) - timedelta(minutes=minutes)
    found = replace(samples.profile(), started_at=began.isoformat(timespec="seconds"))
    return replace(found, **changes)  # type: ignore[arg-type]


def applied(store: Workspace, minutes: float, digest: str = "other") -> None:
    """A run of apply on the server that took one step so long ago, in half a minute."""
    journal = store.journal
    run = journal.begin("1", digest)
    step = Step("move wal", "pg_wal", "move", "back", "server restart", 1, 0, 1.0)
    (number,) = journal.plan(run, [step])
    journal.started(number)
    journal.finished(number, "done", seconds=30.0)
    journal.finish(run, "done")
    began = datetime.now(UTC) - timedelta(minutes=minutes)
    for table, column, moment in (
        ("apply_run", "started_at", began),
        ("apply_step", "started_at", began),
        ("apply_step", "finished_at", began + timedelta(seconds=30)),
    ):
        text = moment.isoformat(timespec="milliseconds")
        store.connection.execute(f"UPDATE {table} SET {column} = ?", (text,))


def test_before_is_the_profile_that_preceded_the_apply(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w.db") as store:
        first = store.add("profile", at(60))
        applied(store, 40)
        second = store.add("profile", at(30))
        third = store.add("profile", at(10))
        found = loop_of(store)
        assert found.before is not None and found.before.id == first
        assert found.after is not None and found.after.id == third
        found = loop_of(store, before=str(second), after=str(third))
        assert found.before is not None and found.before.id == second


def test_what_was_observed_while_apply_ran_is_neither(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", at(42))  # five minutes of it: into the apply
        applied(store, 40)
        found = loop_of(store)
        assert found.before is None and found.after is None


def test_a_merged_profile_belongs_where_its_parts_do(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", at(80), "morning")
        store.add("profile", at(60), "noon")
        applied(store, 40)
        number = store.add("profile", profiles.merge(store, ["morning", "noon"]), "both")
        found = loop_of(store)
        assert found.before is not None and found.before.id == number and found.after is None


def test_an_undone_apply_is_none(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", at(60))
        applied(store, 40)
        run = store.journal.last_run("1")
        assert run is not None and last_applied(store, "1") is not None
        store.journal.finish(run.id, "undone")
        assert last_applied(store, "1") is None and loop_of(store).after is None


def test_a_run_that_changed_nothing_hides_no_earlier_one(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w.db") as store:
        applied(store, 40)
        first = store.journal.last_run("1")
        assert first is not None
        run = store.journal.begin("1", "refused")
        step = Step("move wal", "pg_wal", "move", "back", "server restart", 1, 0, 1.0)
        (number,) = store.journal.plan(run, [step])
        store.journal.started(number)
        store.journal.finished(number, "failed", note="no space")
        store.journal.finish(run, "failed")
        found = last_applied(store, "1")
        assert found is not None and found.run.id == first.id
        store.journal.finished(number, "partial", note="half done")
        found = last_applied(store, "1")
        assert found is not None and found.run.id == run


def test_verify_holds_against_the_layout_that_was_applied_last(tmp_path: Path) -> None:
    from pgstow import catalog

    plan = samples.plan()
    other = replace(plan.layout, host=replace(plan.layout.host, instance="r6i.xlarge"))
    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", at(60))
        store.add("plan", plan)
        assert expected(store, None, catalog.load()).layout == plan.layout  # nothing applied yet
        remember_layout(store, other)
        applied(store, -1, layout_digest(other))
        assert expected(store, None, catalog.load()).layout == other
        store.connection.execute("DELETE FROM document WHERE kind = 'layout'")
        with pytest.raises(UserError, match="not in the workspace; name its file"):
            expected(store, None, catalog.load())


def test_verify_and_diff_agree_about_what_lies_elsewhere(tmp_path: Path) -> None:
    from pgstow.cli.diff import between
    from pgstow.cli.verify import not_there

    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", samples.profile())
        profile, wanted = samples.profile(), samples.layout_after()
        steps = between(profile.server, wanted, store).steps
        relations = sum(step.kind in ("move table", "move index") for step in steps)
        (warning,) = not_there(profile, wanted, store)
        assert (
            relations
            and f"{relations} relation(s) and pg_wal are on other volumes" in warning.message
        )
        assert not_there(profile, profile.layout, store) == ()


def test_profiles_are_named_listed_and_chosen(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with Workspace.open(path) as store:
        store.add("profile", at(60), profiles.free_name(store, "before-move"))
        applied(store, 40)
        store.add("profile", at(30))
        assert profiles.chosen_profile(store, "before-move") == profiles.chosen_profile(store, "1")
        for name in ("before-move", "7", "", "a,b", "a\nb"):
            with pytest.raises(UserError):
                profiles.free_name(store, name)
        with pytest.raises(UserError, match="no profile nowhere; see pgstow observe --list"):
            profiles.chosen_entry(store, "nowhere")
    run = CliRunner()
    text = run.invoke(app, ["observe", "--list", "--workspace", str(path)])
    assert text.exit_code == 0, text.output
    assert "before-move" in text.output and "1,312" in text.output
    result = run.invoke(app, ["observe", "--list", "--workspace", str(path), "--json"])
    rows = json.loads(result.stdout)
    assert [row["report"] for row in rows] == ["before", "after"]
    chosen = ["explain", "--profile", "nowhere", "--workspace", str(path)]
    assert "no profile nowhere" in str(run.invoke(app, chosen).exception)


def test_an_older_workspace_gets_names(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with Workspace.open(path) as store:
        store.add("profile", at(60))
        store.connection.execute("ALTER TABLE document DROP COLUMN name")
        store.connection.execute("PRAGMA user_version = 2")
    with Workspace.open(path) as store:
        assert [entry.name for entry in store.list()] == [None]
        store.add("profile", at(1), "later")


counts = st.lists(st.integers(min_value=0, max_value=10_000), min_size=2, max_size=12)


@given(counts, st.integers(min_value=1, max_value=11))
def test_merged_rates_are_those_of_all_the_samples(events: list[int], cut: int) -> None:
    """Of intervals of one second, merging two halves gives what one observation would."""
    cut = min(cut, len(events) - 1)
    whole, one, other = (_rate(part) for part in (events, events[:cut], events[cut:]))
    found = rate_of_all([one, other], [cut, len(events) - cut])
    assert found.mean == pytest.approx(whole.mean)
    assert found.samples == whole.samples
    assert found.stdev == pytest.approx(whole.stdev, abs=1e-6)


def _rate(events: list[int]) -> Rate:
    import statistics

    spread = statistics.stdev(events) if len(events) > 1 else None
    return Rate(statistics.fmean(events), spread, len(events))


def test_latencies_are_weighted_by_what_they_are_of() -> None:
    assert mean_of_all([1.0, 3.0], [300.0, 100.0]) == 1.5
    assert mean_of_all([1.0, None], [300.0, 100.0]) is None  # some were not timed
    assert mean_of_all([1.0, None], [300.0, 0.0]) == 1.0


def test_a_merged_profile_is_of_all_the_time(tmp_path: Path) -> None:
    seen = replace(samples.profile().activity, subtransactions=Rate(30.0))
    quiet = at(60, activity=replace(seen, transactions=Rate(312.0), subtransactions=Rate(10.0)))
    busy = at(30, activity=seen)
    found = observe.merged([busy, quiet])
    assert found.started_at == quiet.started_at and found.seconds == 600.0
    assert found.activity.transactions.mean == pytest.approx(812.0)
    assert found.activity.subtransactions is not None
    assert found.activity.subtransactions.mean == pytest.approx(20.0)
    assert observe.merged([at(30), quiet]).activity.subtransactions is None  # not counted in one
    assert found.samples == 122 and len(found.commit_ms) == 1200
    articles = samples.relation_id("articles")
    one, both = busy.demand(articles), found.demand(articles)
    assert one is not None and both is not None
    assert both.random_reads.mean == pytest.approx(one.random_reads.mean)
    assert found.host is not None and busy.host is not None
    assert found.host.devices[0].read_ms == pytest.approx(busy.host.devices[0].read_ms)


def test_what_cannot_be_merged() -> None:
    one = at(60)
    for other, message in (
        (at(58), "overlap"),
        (at(30, layout=samples.layout_after()), "different layouts"),
        (at(30, server=replace(one.server, system_identifier="2")), "different servers"),
    ):
        with pytest.raises(UserError, match=message):
            observe.merged([one, other])
    with pytest.raises(UserError, match="nothing to merge"):
        observe.merged([one])


def test_toast_and_partitions_stand_under_their_owner_and_names_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = samples.profile()
    parent = samples.relation_id("all_events_of_the_platform_since_the_beginning")
    parts = ("analytics_events", "analytics_daily")
    relations = tuple(
        replace(r, partition_of=parent) if r.id.name in parts else r
        for r in profile.server.relations
    )
    profile = replace(profile, server=replace(profile.server, relations=relations))
    monkeypatch.setenv("COLUMNS", "60")
    console().print(_relations(profile))
    text = capsys.readouterr().out
    assert f"{parent} (2 partitions)" in text
    assert "pg_toast" not in text and "analytics_daily" not in text
    assert "content.public.articles" in text


def test_equal_layouts_are_one_however_their_numbers_are_written(tmp_path: Path) -> None:
    wanted = samples.layout_after()
    volume = replace(wanted.volumes[0], iops=Iops(6000.0))
    other = replace(volume, iops=Iops(6000), throughput=BytesPerSecond(volume.throughput or 0))
    one, same = (replace(wanted, volumes=(v, *wanted.volumes[1:])) for v in (volume, other))
    assert one == same and repr(one) != repr(same)
    assert layout_digest(one) == layout_digest(same)
    more = replace(volume, iops=Iops(6001.0))
    assert layout_digest(one) != layout_digest(replace(one, volumes=(more, *one.volumes[1:])))
    assert layout_digest(read_layout(_written(tmp_path, one))) == layout_digest(one)
    assert layout_digest(replace(one, volumes=one.volumes[::-1])) == layout_digest(one)


def _written(directory: Path, layout: Layout) -> Path:
    file = directory / "layout.toml"
    file.write_text(format_layout(layout))
    return file


def test_the_digest_of_a_layout_is_the_one_that_journals_have() -> None:
    host = HostSpec("ec2", "us-east-1", "r6i.large")
    volume = Volume("data", "gp3", Bytes(20 * GIB), "/mnt/data", iops=Iops(6000))
    layout = Layout(host, (volume,), Placement("data", "data"))
    assert layout_digest(layout).startswith("f583acacc9d6f462a54e8a2c662")


def test_diff_says_which_volumes_are_not_as_they_were_observed() -> None:
    from pgstow.cli.diff import between

    with Workspace.empty() as store:
        seen = samples.profile()
        store.add("profile", seen)
        same = between(seen.server, seen.layout, store)
        assert [one.code for one in same.warnings] == []
        data = replace(seen.layout.volumes[0], iops=Iops(6000), throughput=None)
        wanted = replace(seen.layout, volumes=(data,))
        (found,) = between(seen.server, wanted, store).warnings
    assert found.code == "volume-differs"
    assert "is to be gp3 of 150 GiB, 6,000 IOPS, 125 MiB/s" in found.message
    assert "it was gp3 of 150 GiB, 3,000 IOPS, 125 MiB/s" in found.message
