"""The random order: blocks are complete, and their order is by lot and by nothing else."""

from collections import Counter
from dataclasses import replace

import pytest
from experiment_samples import experiment
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.experiment.design import block_order, length_s, order
from pgstow.experiment_file import read_experiment

seeds = st.integers(0, 2**63)
level_names = st.lists(
    st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique=True
)  # fmt: skip


@given(level_names, st.integers(1, 6), seeds)
def test_each_block_has_each_treatment_once(levels: list[str], blocks: int, seed: int) -> None:
    one = replace(experiment(*levels, blocks=blocks), seed=seed)
    made = order(one)
    assert len(made) == blocks
    for block in made:
        assert Counter(block) == Counter(one.treatments)


@given(level_names, seeds, st.integers(1, 5), st.integers(0, 5))
def test_more_blocks_leave_those_before_as_they_are(
    levels: list[str], seed: int, blocks: int, more: int
) -> None:
    one = replace(experiment(*levels, blocks=blocks), seed=seed)
    longer = replace(one, blocks=blocks + more)
    assert order(longer)[:blocks] == order(one)
    assert block_order(one, blocks + more) == block_order(longer, blocks + more)


@given(level_names, seeds, st.randoms(use_true_random=False))
def test_neither_the_files_order_nor_other_levels_matter(
    levels: list[str], seed: int, random: object
) -> None:
    one = replace(experiment(*levels), seed=seed)
    shuffled = list(one.treatments)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert order(replace(one, treatments=tuple(shuffled))) == order(one)
    kept = tuple(t for t in one.treatments if t is one.treatments[0] or random.random() < 0.5)  # type: ignore[attr-defined]
    fewer = replace(one, treatments=kept)
    expected = tuple(tuple(t for t in block if t in kept) for block in order(one))
    assert order(fewer) == expected


def test_orders_are_even() -> None:
    """All 6 orders of three, 100 of 600 blocks each: 6 standard deviations are 55."""
    one = experiment("a", "b", "c", blocks=600)
    counts = Counter(tuple(t.level("wal") for t in block) for block in order(one))
    assert len(counts) == 6
    assert all(abs(count - 100) < 55 for count in counts.values())


@settings(max_examples=20)
@given(seeds)
def test_another_seed_gives_another_order(seed: int) -> None:
    one = replace(experiment("a", "b", "c", "d", blocks=20), seed=seed)
    assert order(one) != order(replace(one, seed=seed + 1))


def test_the_order_does_not_change_with_versions() -> None:
    one = replace(experiment("a", "b", "c", "d", blocks=3), seed=20261121)
    found = ["".join(t.level("wal") for t in block) for block in order(one)]
    assert found == ["cadb", "cdba", "abcd"]


def test_length_counts_what_is_beside_the_measurement() -> None:
    one = experiment("a", "b", blocks=3)  # of 30 s each
    assert length_s(one, set_up_s=10) == 3 * 2 * 40
    assert length_s(replace(one, side_by_side=True), set_up_s=10) == 3 * 40
    quick = read_experiment("wal-split", "quick")
    assert length_s(quick) == pytest.approx(2 * 4 * (8 + 3 + 14))
