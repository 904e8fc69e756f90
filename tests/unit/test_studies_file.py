"""The published studies: their figures, their claims, and how these meet the experiments."""

import pytest

from pgstow.experiment_file import experiment_names, find_experiment, read_experiment
from pgstow.model import Claim, UserError
from pgstow.studies_file import parse_study, read_study, study_names
from pgstow.verification.experiments.metrics import known_metric

# What a trial has: figures of its own and of its scripts, and shares of the active sessions.
FIGURES = {
    "tps", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms", "stddev_ms", "seconds",
    "connection_ms", "commit_mean_ms", "commit_p99_ms", "commit_max_ms", "wal_sync_ms",
    "wal_sync_us", "wal_write_ms", "wal_write_us", "wal_write_max_ms", "wal_write_kib",
    "await_max_ms", "device_writes", "device_write_kib", "usd_month", "usd_per_1000_tps",
}  # fmt: skip
SCRIPTS = {"read_articles", "read_old_article", "record_events"}
EVENTS = {"IO:WalSync", "LWLock:WALWrite"}
METRICS = FIGURES | {f"waits.{event}" for event in EVENTS}
METRICS |= {f"scripts.{script}.{figure}" for script in SCRIPTS for figure in FIGURES}


def recorded_profiles(name: str) -> list[str]:
    """The profiles of an experiment that are run again with the studies."""
    text = find_experiment(name).read_text()
    return [one for one in ("full", "rows", "idle") if f"[profiles.{one}]" in text]


@pytest.mark.parametrize("name", experiment_names())
def test_claims_are_about_levels_of_the_experiment(name: str) -> None:
    """Of the profiles that the page of the studies is made from."""
    study = read_study(name)
    assert study.name == name
    levels = {
        treatment.levels
        for profile in recorded_profiles(name)
        for treatment in read_experiment(name, profile).treatments
    }
    named = {tuple(sorted(one)) for one in levels}
    for claim in study.claims:
        assert claim.over != claim.under
        for side in (claim.over, claim.under):
            assert tuple(sorted(side)) in named, claim.text
        assert claim.metric in METRICS, claim.text
    for row in study.rows:
        assert not row.levels or tuple(sorted(row.levels)) in named, row.label
    assert {column.metric for column in study.columns} - {None} <= METRICS


def test_every_figure_of_a_claim_can_be_read() -> None:
    assert sorted(known_metric(name).name for name in METRICS) == sorted(METRICS)


@pytest.mark.parametrize("name", experiment_names())
def test_the_first_claim_can_be_held_against_quick(name: str) -> None:
    """What the study is known for, from its baseline: five minutes say something about it."""
    claim, experiment = read_study(name).claims[0], read_experiment(name, "quick")
    names = {tuple(sorted(treatment.levels)) for treatment in experiment.treatments}
    assert {tuple(sorted(claim.over)), tuple(sorted(claim.under))} <= names
    compared = {dict(side)[experiment.compare] for side in (claim.over, claim.under)}
    assert experiment.baseline in compared


@pytest.mark.parametrize(
    ("name", "metric", "ratio"),
    [
        ("wal-split", "tps", 1.36),  # +36 %
        ("wal-split", "p99_ms", 0.55),  # -45 %
        ("filesystem", "tps", 1.062),
        ("placement", "tps", 15.0),
        ("placement", "usd_month", 2.4),
        ("gp3-iops", "tps", 3.4),
        ("io2", "tps", 9.1),
        ("indexes-on-fast", "mean_ms", 38),
        ("dedicated-log-volume", "tps", 1.9183),
        ("striping", "mean_ms", 1.053 / 17),
        ("volume-types", "tps", 1.166),
    ],
)
def test_claims_have_the_published_ratios(name: str, metric: str, ratio: float) -> None:
    claim = next(claim for claim in read_study(name).claims if claim.metric == metric)
    assert claim.ratio == pytest.approx(ratio, rel=0.025)
    assert claim.tolerance == 0.25


def test_prices_are_the_catalogs() -> None:
    truths = {m.says: m.truth for name in study_names() for m in read_study(name).mistakes}
    (io2,) = [truth for says, truth in truths.items() if "io2 of 500 GB with 64,000" in says]
    assert "$3,598.50" in io2
    assert not any("{" in truth for truth in truths.values())


def test_a_published_row_is_found_by_its_levels() -> None:
    study = read_study("wal-split")
    row = study.row((("wal", "apart"),))
    assert row is not None
    assert (row.value("tps"), row.value("unpublished")) == (58200, None)
    assert study.row((("wal", "elsewhere"),)) is None


@pytest.mark.parametrize(
    ("ratio", "low", "high"), [(2.0, 1.5, 2.5), (0.5, 0.375, 0.625), (1.0, 0.75, 1.25)]
)
def test_a_claim_is_met_within_its_tolerance(ratio: float, low: float, high: float) -> None:
    assert Claim("", "tps", (), (), ratio).bounds == pytest.approx((low, high))


def test_a_claim_may_name_a_side_alone() -> None:
    text = """\
name = "n"
title = "t"
document = "d"
publisher = "p"
date = "2026"
where = "w"
[[claims]]
text = "fewer"
metric = "device_writes"
side = "lower"
over = { wal = "apart" }
under = { wal = "shared" }
"""
    (found,) = parse_study(text, "mine.toml").claims
    assert (found.ratio, found.direction, found.bounds) == (None, "lower", (0.0, 1.0))


STUDY = """\
name = "mine"
title = "Mine"
document = "A document"
publisher = "me"
date = "2026"
where = "page 1"
[columns]
tps = { title = "TPS", metric = "tps" }
[[rows]]
label = "slow"
levels = { disk = "slow" }
values = { tps = 100 }
[[rows]]
label = "fast"
levels = { disk = "fast" }
values = { tps = 300 }
[[claims]]
text = "three times"
metric = "tps"
over = { disk = "fast" }
under = { disk = "slow" }
"""


def test_a_ratio_is_that_of_the_rows_unless_given() -> None:
    assert parse_study(STUDY, "mine.toml").claims[0].ratio == 3
    assert parse_study(STUDY + "ratio = 2.9\n", "mine.toml").claims[0].ratio == 2.9


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("values = { tps = 300 }", "values = {}", "claim 'three times' has no ratio, and no two"),
        ('disk = "fast" }\nunder', 'disk = "fsat" }\nunder', "claim 'three times' has no ratio"),
        ("tps = 100", "tsp = 100", "row slow has a value of tsp, which is no column; did you mean"),
        ('text = "three', 'txt = "three', "claims[0].txt: unknown key; did you mean text"),
    ],
)
def test_mistakes_name_the_file_and_the_key(old: str, new: str, says: str) -> None:
    assert old in STUDY
    with pytest.raises(UserError) as raised:
        parse_study(STUDY.replace(old, new, 1), "mine.toml")
    assert f"mine.toml: {says}" in str(raised.value)


def test_unknown_studies_are_refused() -> None:
    with pytest.raises(UserError, match="there is no study 'wal'; did you mean wal-split"):
        read_study("wal")
