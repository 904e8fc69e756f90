"""The page's part on experiments: what it claims, and what it shows of much and of little."""

import json
import re
from dataclasses import replace

import experiment_page_samples as samples
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report import FORBIDDEN_TAGS, LOADING, Page

from pgstow.model import Claim, Column, LatencyHistogram, Mistake, PublishedRow, Study, Waits
from pgstow.report import ExperimentSection, ReportDocument, render, render_pngs
from pgstow.report.charts import to_svg
from pgstow.report.experiments import colours, curves, level_charts, time_charts, words
from pgstow.report.experiments.view import AS_PICTURE
from pgstow.verification import experiments as statistics

pytestmark = pytest.mark.usefixtures("drawn_once")


def page(*sections: ExperimentSection) -> str:
    return render(ReportDocument("Experiments", "2026-11-21T09:00:00+00:00", experiments=sections))


@pytest.fixture(scope="module")
def small() -> str:
    return page(samples.wal_split(), samples.filesystem())


def test_a_clear_effect_is_said_with_its_interval(small: str) -> None:
    text = Page(small).text
    found = re.search(r"With wal apart, throughput is (1\.3\d) × that with wal shared", text)
    assert found
    assert "(99 % interval 1.3" in text
    assert "2 treatments × 6 blocks in random order, seed 7, emulated volumes" in text
    assert "12 trials since 2026-11-21 01:00 UTC" in text
    assert "PostgreSQL 18.4" in text and "2 cores, 24 GiB" in text
    assert "measured on emulated volumes" in text


def test_what_is_not_shown_is_not_claimed(small: str) -> None:
    text = Page(small).text
    assert "1 of 2 comparisons shows a difference in throughput from filesystem ext4" in text
    assert "No difference is demonstrated with filesystem xfs." in text
    rows = re.findall(
        r'<th scope="row" class="level">(\w+)</th>.*?fixed (\w*)">([^<]*)</td>', small
    )
    assert rows[2:] == [
        ("ext4", "", "baseline"),
        ("xfs", "", "no difference demonstrated"),
        ("btrfs", "bad", "lower"),
    ]


def test_a_page_of_experiments_alone_says_so(small: str) -> None:
    page = Page(small)
    assert "2 experiments, 30 trials." in page.text and "Nothing has been observed" not in page.text
    ids = [a["id"] for _, a in page.tags if a.get("id")]
    assert ids == ["experiment-1", "experiment-2", "provenance", "from-1"]
    assert [tag for tag, _ in page.tags].count("script") == 1
    labels = [a.get("aria-label") for tag, a in page.tags if a.get("role") == "img"]
    assert len(labels) == 12 and all(labels)


def test_hostile_text_stays_text() -> None:
    html = page(samples.hostile())
    found = Page(html)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert not FORBIDDEN_TAGS & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert not [n for n in LOADING if not (attributes.get(n) or "#").startswith("#")], tag
    assert "<script>alert(1)</script>" in found.text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", html)
    ids = [a["id"] for _, a in found.tags if a.get("id")]
    assert ids == ["experiment-1", "provenance", "from-1"]
    assert all(re.fullmatch(r"[\w-]+", name) for name in pictures(samples.hostile()))


def pictures(*sections: ExperimentSection) -> dict[str, bytes]:
    return render_pngs(ReportDocument("E", "2026-11-21", experiments=sections))


def test_every_chart_is_a_picture_too() -> None:
    found = pictures(samples.wal_split(2))
    names = "tps", "ratio", "latency", "latency-distribution", "tps-over-time", "sessions"
    assert list(found) == [f"1-wal-split-{name}" for name in names]
    assert all(data.startswith(b"\x89PNG") and len(data) > 4000 for data in found.values())


def test_many_levels_and_strata_have_a_figure_each() -> None:
    made = samples.striping(2)
    html = page(made)
    found = Page(html)
    assert [tag for tag, _ in found.tags].count("details") == 3
    assert len([1 for _, a in found.tags if a.get("role") == "img"]) == 18
    assert html.count('<th scope="row" class="level">') == 48
    assert len(html) < 3_000_000


def test_factors_of_one_level_are_named_once() -> None:
    factors = {"query": ("key",), "stripes": ("1", "4"), "chunk": ("64KiB",)}
    made = samples.section(samples.design("s", "S", factors, "stripes", 3), lambda levels: 100.0)
    found = Page(page(replace(made, warnings=())))
    assert found.text.count("query key") == 1 and "all with query key, chunk 64KiB" in found.text
    assert "details" not in [tag for tag, _ in found.tags]
    assert next(iter(pictures(made))) == "1-s-tps"


def unfinished() -> list[ExperimentSection]:
    """A run with nothing, one trial, one level, no instruments, nothing compared."""
    whole = samples.wal_split(2)
    trials = whole.trials
    bare = [
        replace(
            trial,
            usd_month=None,
            instruments=replace(trial.instruments, waits=None),
            outcome=replace(
                trial.outcome, histogram=None, tps_samples=(), mean_ms=None, p99_ms=None
            ),
        )
        for trial in trials
    ]
    nothing = [replace(one, outcome=replace(one.outcome, tps=0.0)) for one in bare]
    one_level = [trial for trial in trials if trial.levels == trials[0].levels]
    several = (trials[:0], trials[:1], one_level, bare, nothing)
    sections = [samples.of(whole.experiment, tuple(some)) for some in several]
    return [*sections, replace(whole, summaries=(), comparisons=()), replace(whole, run=None)]


def test_a_run_that_has_not_ended_is_shown_as_far_as_it_is() -> None:
    for section in unfinished():
        found = Page(page(section))
        assert "None" not in found.text and "nan" not in found.text
    text = Page(page(*unfinished())).text
    assert "No trial has ended yet." in text
    assert "1 of 4 trials since" in text
    assert "Nothing can be compared yet" in text


def test_few_blocks_have_no_verdict() -> None:
    made = samples.wal_split(1)
    assert words.verdict(made).startswith("Too few blocks for a verdict: wal apart had 1.")


@given(
    st.lists(
        st.dictionaries(st.floats(0.01, 1e5), st.integers(0, 10**6), min_size=1, max_size=30),
        min_size=1,
        max_size=5,
    )
)
def test_a_distribution_rises_to_one(found: list[dict[float, int]]) -> None:
    every = [LatencyHistogram(tuple(sorted(h)), tuple(h[u] for u in sorted(h))) for h in found]
    points = curves.cumulated(every)
    shares = [share for _, share in points]
    assert shares == sorted(shares) and [ms for ms, _ in points] == sorted({ms for ms, _ in points})
    assert not points or shares[-1] == pytest.approx(1.0)


@given(st.lists(st.lists(st.floats(0, 1e5), max_size=300), max_size=6))
def test_the_band_holds_the_median(runs: list[list[float]]) -> None:
    moments = curves.median_over_time(runs)
    assert len(moments) <= curves.MOST_POINTS
    longest = max(map(len, runs), default=0)
    for one in moments:
        assert one.low <= one.median + 1e-6 and one.median <= one.high + 1e-6
        assert 0 < one.second < longest


def test_sessions_beyond_the_largest_are_added_up() -> None:
    events = [f"IO:Event{number}" for number in range(9)] + ["CPU"]
    values = tuple((event, (float(place + 1),) * 4) for place, event in enumerate(events[:9]))
    waits = Waits(1.0, 40, (*values, ("CPU", (0.5, 0.5, 0.5, 0.5))))
    panel = curves.mean_sessions([waits, waits])
    assert panel is not None
    shown = curves.largest_events([panel])
    assert len(shown) == curves.MOST_EVENTS and "CPU" not in shown
    stack = curves.folded(panel, shown)
    assert [event for event, _ in stack] == [*shown, curves.OTHER]
    total = sum(values[0] for _, values in stack)
    assert total == pytest.approx(sum(range(1, 10)) + 0.5)


def test_trials_of_unequal_length_are_averaged_where_they_are() -> None:
    long = Waits(1.0, 4, (("CPU", (1.0, 1.0, 3.0)),))
    short = Waits(1.0, 4, (("CPU", (2.0, 2.0)), ("IO:WalSync", (1.0, 1.0))))
    panel = curves.mean_sessions([long, short])
    assert panel is not None
    assert dict(panel.by_event) == {"CPU": (1.5, 1.5, 3.0), "IO:WalSync": (0.5, 0.5, 0.0)}


def test_slices_that_are_nearly_as_long_are_averaged() -> None:
    lengths = 1.0001, 1.0003, 0.9998, 4.0
    trials = [Waits(s, 4, (("CPU", (float(n), float(n))),)) for n, s in enumerate(lengths)]
    panel = curves.mean_sessions(trials)
    assert panel is not None and panel.slice_s == 1.0001
    assert dict(panel.by_event) == {"CPU": (1.0, 1.0)}


def test_stacks_of_unequal_slices_leave_no_gaps() -> None:
    stack = (("CPU", (1.0, 2.0)), ("IO:WalSync", (0.5, 0.5)))
    panels = {"one": (1.0001, stack), "other": (1.0003, stack)}
    colour = dict.fromkeys(("CPU", "IO:WalSync"), "w-cpu")
    spec = time_charts.sessions(panels, colour, AS_PICTURE)
    tops = [row["high"] for row in spec["datasets"]["rows"]]
    assert tops == [1.0, 2.0, 2.0, 1.5, 2.5, 2.5] * 2
    assert "stack" not in json.dumps({**spec, "datasets": {}})
    paths = re.findall(r'aria-label="second[^"]*" [^>]*? d="([^"]+)"', str(to_svg(spec, "")))
    assert len(paths) == 4 and all(path.count("M") == 1 for path in paths)


def test_an_event_keeps_its_colour_and_shades_are_not_shared_needlessly() -> None:
    one = colours.wait_colours(["IO:WalSync", "IO:DataFileRead", "IO:WalWrite", "CPU", "other"])
    other = colours.wait_colours(["IO:BufFileRead", "IO:DataFileRead", "LWLock:WALWrite"])
    assert one["IO:DataFileRead"] == other["IO:DataFileRead"]
    assert len(set(one.values())) == 5 and len(set(other.values())) == 3
    reads = colours.wait_colours(["IO:AioIoCompletion", "IO:DataFileRead"])
    assert reads["IO:DataFileRead"] == one["IO:DataFileRead"] != reads["IO:AioIoCompletion"]


def test_levels_are_told_apart_by_colour_and_dashes() -> None:
    levels = [str(number) for number in range(16)]
    styles = colours.level_styles(levels, "3")
    assert styles["3"].colour == "k0" and len(set(styles.values())) == 16


@given(st.lists(st.text(max_size=60), unique=True, max_size=16), st.integers(8, 30))
def test_no_two_levels_share_a_label(names: list[str], length: int) -> None:
    labels = level_charts.labelled(names, length)
    assert len(set(labels.values())) == len(names) and all(labels.values())


def study(**changed: object) -> Study:
    """A study of the WAL apart, with a column and a row that nothing measures."""
    shared, apart = (("wal", "shared"),), (("wal", "apart"),)
    made = Study(
        name="wal-split",
        title="WAL apart",
        document="A <b>document</b>",
        publisher="somebody",
        date="2026-05",
        where="page 3",
        conditions=(("clients", "16"),),
        columns=(Column("tps", "TPS", "", "tps"), Column("fsync", "longest fsync", "ms")),
        rows=(
            PublishedRow("together", (("tps", 42_800.0), ("fsync", 0.9)), shared),
            PublishedRow("apart", (("tps", 58_200.0),), apart),
            PublishedRow("in memory", (("tps", 99_000.0),)),
        ),
        claims=(
            Claim("36 % more", "tps", apart, shared, 1.36),
            Claim("twice as many", "tps", apart, shared, 2.0, note="of another machine"),
            Claim("less of it", "tps", (("wal", "nvme"),), shared, 0.5),
        ),
        mistakes=(Mistake("<i>fsync</i> is free", "It is not.", "fsync(2)"),),
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def held(against: Study) -> ExperimentSection:
    made = samples.wal_split()
    outcome = statistics.hold_against(against, made.experiment, made.trials)
    return replace(made, study=outcome)


def test_a_study_is_shown_beside_what_was_measured() -> None:
    html = page(held(study()))
    text = Page(html).text
    assert "Of 3 claims: 1 holds, 1 does not hold, 1 not measured." in text
    assert "A <b>document</b>" in text and "<i>fsync</i> is free" in text
    assert "of another machine" in text
    cells = re.findall(r'<td class="number published">(.*?)</td>(?:<td class="number">(.*?)</td>)?',
                       html)  # fmt: skip
    assert [published for published, _ in cells] == ["42,800", "0.9", "58,200", "–", "99,000", "–"]
    measured = [found for _, found in cells]
    assert measured[0] and measured[2] and measured[4] == "–"
    assert measured[1] == measured[3] == measured[5] == ""
    verdicts = re.findall(r'class="fixed (\w*)">((?:holds|does|not)[\w ]*)</td>', html)
    assert verdicts == [("good", "holds"), ("bad", "does not hold"), ("", "not measured")]


def test_a_study_without_a_table_or_mistakes_is_shown() -> None:
    text = Page(page(held(study(rows=(), columns=(), mistakes=(), conditions=())))).text
    assert "Held against the study" in text
    assert "What is wrong in the document" not in text and "The study's table" not in text
