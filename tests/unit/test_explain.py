"""What explain says: what is on each volume, the reasons for one relation, hostile names."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import content_platform
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner

from pgstow import catalog, planning, prediction, verification
from pgstow.cli.explain_lines import lines
from pgstow.cli.main import app
from pgstow.cli.names import fitted, shown
from pgstow.model import (
    Layout,
    Placement,
    Prediction,
    Profile,
    Rate,
    Relation,
    RelationId,
    Tablespace,
    UserError,
    Volume,
)
from pgstow.planning import Margins
from pgstow.planning.candidates import sold
from pgstow.planning.economics import Access, break_even, usd_month
from pgstow.units import GIB, Bytes
from pgstow.workspace import Workspace

CATALOG = catalog.load()
PROFILE = content_platform.profile()
CANDIDATES = {candidate.type: candidate for candidate in sold(PROFILE.layout.host, CATALOG)}
MARGINS = Margins(free_space=0.3, headroom=0.2)
HOSTILE = 'a"b\n\x1b[31m\u202e<script>[bold]' + "x" * 40


def split_layout() -> Layout:
    """The platform on two volumes, pg_wal on the second."""
    fast = Volume("fast", "gp3", Bytes(20 * GIB), "/mnt/fast")
    articles = Tablespace("fast", "fast", (content_platform.relation_id("articles"),))
    base = PROFILE.layout
    return replace(
        base,
        volumes=(*base.volumes, fast),
        postgres=Placement("data", "fast"),
        tablespaces=(articles,),
    )


def predicted(profile: Profile = PROFILE, layout: Layout | None = None) -> Prediction:
    return prediction.predict(profile, layout or profile.layout, CATALOG)


def workspace(path: Path, profile: Profile) -> Path:
    with Workspace.open(path) as store:
        store.add("profile", profile)
    return path


def test_everything_lies_on_one_volume_and_its_loads_add_up() -> None:
    found = predicted(layout=split_layout())
    held = planning.contents(found, PROFILE, shown=3)
    assert [one.volume for one in held] == ["data", "fast"]
    assert sum(s.relations for one in held for s in one.shares) == len(content_platform.RELATIONS)
    assert [s.kind for s in held[1].shares if s.name is None] == ["WAL"]
    assert held[0].shares[-1].kind == "rest"
    for one, load in zip(held, found.volumes, strict=True):
        asked = sum(share.iops for share in one.shares)
        assert asked == pytest.approx(load.reads + load.writes, rel=0.1)


def test_the_busiest_come_first_and_the_rest_are_one_line() -> None:
    (held,) = planning.contents(predicted(), PROFILE, shown=4)
    named = [share for share in held.shares if share.name]
    assert [share.iops for share in named] == sorted((s.iops for s in named), reverse=True)
    assert named[0].name == "content.public.articles"
    rest = held.shares[-1]
    assert (rest.kind, rest.relations) == ("rest", len(content_platform.RELATIONS) - 4)
    whole = planning.contents(predicted(), PROFILE, shown=100)[0]
    assert sum(s.iops for s in whole.shares) == pytest.approx(sum(s.iops for s in held.shares))
    assert whole.used_bytes == held.used_bytes


def test_toast_is_part_of_its_table() -> None:
    table = content_platform.relation_id("articles")
    toast = Relation(RelationId("content", "pg_toast", "t1"), "toast", Bytes(GIB), table=table)
    server = replace(PROFILE.server, relations=(*PROFILE.server.relations, toast))
    profile = replace(PROFILE, server=server)
    (held,) = planning.contents(predicted(profile), profile)
    names = {share.name: share for share in held.shares}
    assert "content.pg_toast.t1" not in names
    assert names["content.public.articles"].size_bytes == 768 * 1024**2 + GIB


def test_hostile_names_are_written_out_and_long_ones_cut_in_the_middle() -> None:
    profile = content_platform.with_names({"articles": HOSTILE, "analytics_events": "日本" * 31})
    text = list(lines(predicted(profile), profile, width=100))
    assert all(line.isprintable() for line in text)
    assert max(cell_len(line) for line in text if "->  Table" in line) <= 104
    assert any("…" in line for line in text)
    assert any(
        shown(HOSTILE.replace('"', '""')) in line for line in lines(predicted(profile), profile)
    )


@given(st.text(), st.integers(min_value=4, max_value=80))
def test_a_fitted_name_fits(text: str, width: int) -> None:
    found = fitted(text, width)
    assert cell_len(found) <= width
    assert found.isprintable()
    if cell_len(shown(text)) <= width:
        assert found == shown(text)


DENSITIES = st.floats(min_value=1e-4, max_value=1e5)
TYPES = st.sampled_from(sorted(CANDIDATES))


@given(TYPES, TYPES, st.floats(min_value=0, max_value=1))
def test_at_the_break_even_density_two_types_cost_the_same(
    one: str, other: str, random: float
) -> None:
    mix = Access(1.0, random, 1 - random)
    density = break_even(CANDIDATES[one], CANDIDATES[other], mix, MARGINS)
    if density is None:
        return
    at = mix.at_density(density)
    here, there = (usd_month(CANDIDATES[name], at, MARGINS) for name in (one, other))
    assert here == pytest.approx(there, rel=1e-6)


@given(TYPES, TYPES, DENSITIES, DENSITIES)
def test_without_a_break_even_density_one_type_is_never_dearer(
    one: str, other: str, low: float, high: float
) -> None:
    mix = Access(1.0, 1.0, 0.0)
    if break_even(CANDIDATES[one], CANDIDATES[other], mix, MARGINS) is not None:
        return
    signs = set()
    for density in (low, high):
        at = mix.at_density(density)
        more = usd_month(CANDIDATES[one], at, MARGINS) - usd_month(CANDIDATES[other], at, MARGINS)
        if abs(more) > 1e-9:
            signs.add(more > 0)
    assert len(signs) <= 1


def test_what_is_stored_alone_says_where_idle_data_are_cheapest() -> None:
    idle = Access(100.0, 0.0, 0.0)
    price = {name: usd_month(candidate, idle, MARGINS) for name, candidate in CANDIDATES.items()}
    assert price["sc1"] == pytest.approx(100 / 0.7 * 0.015)
    assert price["gp3"] == pytest.approx(100 / 0.7 * 0.08)


def test_a_busy_relation_buys_space_where_its_io_comes_with_it() -> None:
    """gp2 gives 3 IOPS for each GiB: 300 IOPS with a fifth kept free need 125 GiB."""
    busy = Access(10.0, 300.0, 0.0)
    assert usd_month(CANDIDATES["gp2"], busy, MARGINS) == pytest.approx(125 * 0.10)


def test_the_reasons_for_a_relation_hold_its_density_against_prices() -> None:
    relation = planning.select_one("articles", PROFILE.server.relations)
    found = planning.why((relation,), predicted(layout=split_layout()), PROFILE, CATALOG, MARGINS)
    assert (found.volume, found.type) == ("fast", "gp3")
    costs = [choice.usd_month for choice in found.types]
    assert costs == sorted(costs)
    slow = next(choice for choice in found.types if choice.type == "st1")
    assert slow.break_even is not None
    assert found.density > slow.break_even
    assert slow.usd_month > next(c for c in found.types if c.type == "gp3").usd_month
    assert [choice.volume for choice in found.volumes] == ["data"]


def test_why_an_idle_relation_lies_where_it_does() -> None:
    quiet = tuple(
        replace(d, random_reads=Rate(0.0), block_writes=Rate(0.0))
        if d.relation.name == "old_articles"
        else d
        for d in PROFILE.demands
    )
    profile = replace(PROFILE, demands=quiet)
    relation = planning.select_one("old_articles", profile.server.relations)
    found = planning.why((relation,), predicted(profile), profile, CATALOG, MARGINS)
    assert found.is_idle
    assert found.types[0].type == "sc1"


def test_explain_prints_a_tree_and_its_json_has_the_same(tmp_path: Path) -> None:
    path = workspace(tmp_path / "w.db", content_platform.with_names({"articles": HOSTILE}))
    text = CliRunner().invoke(app, ["explain", "--workspace", str(path)])
    assert text.exit_code == 0, text.output
    assert "->  Volume data: gp3 20 GiB" in text.output
    assert "\x1b" not in text.output and "\u202e" not in text.output
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), "--json"])
    document = json.loads(result.stdout)
    assert document["bottleneck"] == "volume data: iops"
    (held,) = document["contents"]
    assert any(HOSTILE.replace('"', '""') in (share["name"] or "") for share in held["shares"])


def test_explain_why_in_text_and_json(tmp_path: Path) -> None:
    path = workspace(tmp_path / "w.db", PROFILE)
    run = CliRunner()
    text = run.invoke(app, ["explain", "--workspace", str(path), "--why", "articles"])
    assert text.exit_code == 0, text.output
    assert "<- current" in text.output and "break-even with gp3" in text.output
    arguments = ["explain", "--workspace", str(path), "--why", "articles", "--json"]
    document = json.loads(run.invoke(app, arguments).stdout)
    assert document["why"]["relation"]["name"] == "articles"


def test_the_plans_own_next_best_is_said_for_its_layout(tmp_path: Path) -> None:
    from pgstow.layout_file import format_layout
    from pgstow.model import Goal

    found = planning.plan(PROFILE, Goal(tps=4 * content_platform.TPS), CATALOG)
    path = workspace(tmp_path / "w.db", PROFILE)
    with Workspace.open(path) as store:
        store.add("plan", found)
    file = tmp_path / "planned.toml"
    file.write_text(format_layout(found.layout), encoding="utf-8")
    arguments = ["explain", str(file), "--workspace", str(path), "--why", "articles"]
    text = CliRunner().invoke(app, arguments)
    assert "The plan's next best" in text.output


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("articles", {"articles"}),
        ("ARTICLES", {"articles"}),
        ("public.articles", {"articles"}),
        ("content.public.articles", {"articles"}),
        ("articles*", {"articles", "articles_pkey", "articles_cat_pub"}),
        ("content.*.analytics_?????", {"analytics_daily"}),
        ('"articles"', {"articles"}),
    ],
)
def test_relations_are_meant_by_names_and_patterns(text: str, matched: set[str]) -> None:
    found = planning.select(text, PROFILE.server.relations)
    assert {relation.id.name for relation in found} == matched


@pytest.mark.parametrize("name", ["Odd*Name", 'quo"te', "dot.ted", "\u202eodd", "a=b"])
def test_quoted_names_are_taken_as_they_are(name: str) -> None:
    profile = content_platform.with_names({"articles": name})
    quoted = '"' + name.replace('"', '""') + '"'
    (found,) = planning.select(quoted, profile.server.relations)
    assert found.id.name == name
    (whole,) = planning.select(str(found.id), profile.server.relations)
    assert whole == found


@pytest.mark.parametrize("text", ["", ".", "a.b.c.d", "a..b", '"', '""', "a.", '"a"b'])
def test_what_is_no_name_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = workspace(tmp_path / "w.db", PROFILE)
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), "--why", text])
    assert result.exception is not None
    assert "names no relation" in str(result.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [("artcles", "did you mean content.public.articles"), ("nothing_like_it", "name one that")],
)
def test_unknown_relations_get_a_remedy(tmp_path: Path, text: str, said: str) -> None:
    path = workspace(tmp_path / "w.db", PROFILE)
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), "--why", text])
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_name_for_several_relations_is_refused(tmp_path: Path) -> None:
    path = workspace(tmp_path / "w.db", PROFILE)
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), "--why", "articles*"])
    assert "means 3 relations" in str(result.exception)


def test_isprintable_is_what_the_terminal_needs() -> None:
    """The characters that reorder or hide text are of the categories that are not printable."""
    assert unicodedata.category("\u202e") == "Cf"
    assert shown("\u202e") == "\\u202e"


def supposed(path: Path, *options: str) -> dict[str, Any]:
    arguments = ["explain", "--workspace", str(path), "--json", *options]
    found: dict[str, Any] = json.loads(CliRunner().invoke(app, arguments).stdout)
    return found


def test_a_backup_beside_the_clients_and_more_memory(tmp_path: Path) -> None:
    assert PROFILE.host is not None
    small = replace(PROFILE.host, memory_bytes=GIB)
    path = workspace(tmp_path / "p.db", replace(PROFILE, host=small))
    plain, backup, memory = (
        supposed(path),
        supposed(path, "--beside", "data=100MiB/s"),
        supposed(path, "--memory", "4GiB"),
    )
    assert backup["performance"]["tps"] < 0.95 * plain["performance"]["tps"]
    assert memory["performance"]["tps"] > 1.05 * plain["performance"]["tps"]
    with Workspace.open(path) as store:  # what was supposed is not kept
        assert len(list(store.list("prediction"))) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--beside", "data"), "not a load beside the clients'"),
        (("--beside", "data=1MiB/s:erased"), "not a load beside the clients'"),
        (("--beside", "data=0MiB/s"), "nothing is asked"),
        (("--beside", "data=fast"), "is not a bandwidth"),
        (("--beside", "nowhere=1MiB/s"), "there is no volume nowhere"),
        (("--memory", "lots"), "is not a size"),
        (("--memory", "0MiB"), "no server runs without"),
    ],
)
def test_what_cannot_be_supposed(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    path = workspace(tmp_path / "p.db", PROFILE)
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), *options])
    assert isinstance(result.exception, UserError)
    assert says in str(result.exception)
    assert "write it like" in str(result.exception) or "use data" in str(result.exception)


def test_another_memory_needs_a_host_that_was_seen(tmp_path: Path) -> None:
    path = workspace(tmp_path / "p.db", replace(PROFILE, host=None))
    result = CliRunner().invoke(app, ["explain", "--workspace", str(path), "--memory", "1GiB"])
    assert isinstance(result.exception, UserError)
    assert "which reads the present memory serves" in str(result.exception)


def partitioned() -> Profile:
    """The platform with articles and old_articles as partitions of one table."""
    parent = content_platform.relation_id("texts")
    server = PROFILE.server
    parts = {"articles", "old_articles"}
    relations = tuple(
        replace(r, partition_of=parent) if r.id.name in parts else r for r in server.relations
    )
    return replace(PROFILE, server=replace(server, relations=relations))


def test_partitions_are_summed_under_their_parent() -> None:
    profile = partitioned()
    found = predicted(profile)
    (held,) = planning.contents(found, profile, shown=100)
    (whole,) = planning.contents(predicted(), PROFILE, shown=100)
    parent = next(s for s in held.shares if s.name == "content.public.texts")
    parts = [s for s in whole.shares if (s.name or "").endswith(("articles", "old_articles"))]
    assert (parent.kind, parent.relations) == ("partitioned table", 2)
    assert parent.size_bytes == sum(s.size_bytes or 0 for s in parts)
    assert parent.iops == pytest.approx(sum(s.iops for s in parts))
    text = "\n".join(lines(found, profile))
    assert "Partitioned table content.public.texts  (partitions=2 iops=" in text
    assert "content.public.old_articles" not in text


def test_why_answers_for_a_parent_and_for_the_wal(tmp_path: Path) -> None:
    path = workspace(tmp_path / "w.db", replace(partitioned(), layout=split_layout()))
    run = CliRunner()
    text = run.invoke(app, ["explain", "--workspace", str(path), "--why", "texts"])
    assert text.exit_code == 0, text.output
    assert "Partitioned table content.public.texts  (volume=fast, data" in text.output
    assert "On volume data" in text.output and "On volume fast" in text.output
    text = run.invoke(app, ["explain", "--workspace", str(path), "--why", "wal"])
    assert text.exit_code == 0, text.output
    assert "WAL pg_wal  (volume=fast type=gp3)" in text.output
    assert "On volume data, nothing bought" in text.output


def test_observed_stands_beside_predicted_and_a_miss_is_a_warning(tmp_path: Path) -> None:
    path = workspace(tmp_path / "w.db", PROFILE)
    plain = CliRunner().invoke(app, ["explain", "--workspace", str(path)])
    assert "Held against the observed" in plain.output
    assert "transaction latency, mean" in plain.output and "TPS" in plain.output
    assert "observed=" in plain.output and "Next: pgstow" in plain.output
    slow = replace(
        PROFILE, activity=replace(PROFILE.activity, active_sessions=Rate(0.05))
    )  # the model cannot know that transactions were that short
    found = supposed(workspace(tmp_path / "s.db", slow))
    latency = next(c for c in found["comparisons"] if c["metric"] == "latency_ms.mean")
    assert latency["predicted"] > 2 * latency["measured"]
    said = next(w for w in found["warnings"] if w["code"] == "prediction-missed")
    assert "mean latency" in said["message"] and "observed" in said["message"]


def test_what_others_write_to_the_device_is_told() -> None:
    assert PROFILE.host is not None
    quiet = verification.unexplained_warnings(PROFILE)
    devices = tuple(
        replace(d, write_bytes=Rate(d.write_bytes.mean + 70 * 2**20)) for d in PROFILE.host.devices
    )
    busy = replace(PROFILE, host=replace(PROFILE.host, devices=devices))
    (said,) = verification.unexplained_warnings(busy)
    assert quiet == () and said.code == "unexplained-writes"
    assert "something else's" in said.message and "MiB/s" in said.message


def test_reading_makes_no_workspace(tmp_path: Path) -> None:
    for command in (["explain"], ["plan"], ["verify"], ["observe", "--list"], ["report"]):
        result = CliRunner().invoke(app, [*command, "--workspace", str(tmp_path / "none.db")])
        assert result.exit_code and "no workspace" in str(result.exception), command
    assert list(tmp_path.iterdir()) == []
