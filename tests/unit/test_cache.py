"""The miss-ratio curve: laws, and an LRU cache that was simulated."""

import random
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.model import RelationId
from pgstow.prediction.cache import MissRatioCurve, Reuse


def name(number: int) -> RelationId:
    return RelationId("shop", "public", f"r{number}")


@st.composite
def uses(draw: st.DrawFn) -> list[Reuse]:
    count = draw(st.integers(1, 6))
    return [
        Reuse(
            name(number),
            draw(st.floats(0.1, 1e4)),
            draw(st.floats(0.01, 0.99)),
            draw(st.floats(10, 1e6)),
        )
        for number in range(count)
    ]


@given(uses(), st.floats(10, 1e6), st.floats(1, 1e6), st.floats(1.1, 10))
def test_more_memory_never_misses_more(
    seen: list[Reuse], present: float, cache: float, factor: float
) -> None:
    curve = MissRatioCurve.of(seen, present)
    small, large = curve.miss_ratios(cache), curve.miss_ratios(cache * factor)
    for relation, ratio in small.items():
        assert 0 <= large[relation] <= ratio + 1e-9
        assert ratio <= 1


@given(uses(), st.floats(100, 1e4))
def test_the_present_cache_misses_what_was_seen(seen: list[Reuse], present: float) -> None:
    # Relations so large that no working set is cut to its relation's size.
    large = [Reuse(use.relation, use.accesses, use.miss_ratio, 1e12) for use in seen]
    found = MissRatioCurve.of(large, present).miss_ratios(present)
    for use in large:
        assert found[use.relation] == pytest.approx(use.miss_ratio, rel=0.01, abs=0.01)


def lru_miss_ratios(sizes: list[int], weights: list[float], cache: int) -> list[float]:
    """Simulate an LRU cache under independent uniform accesses to relations of these sizes."""
    chance = random.Random(5)
    there: OrderedDict[tuple[int, int], None] = OrderedDict()
    asked, missed = [0] * len(sizes), [0] * len(sizes)
    for step in range(200_000):
        relation = chance.choices(range(len(sizes)), weights)[0]
        block = (relation, chance.randrange(sizes[relation]))
        counts = step > 100_000
        asked[relation] += counts
        if block in there:
            there.move_to_end(block)
            continue
        missed[relation] += counts
        there[block] = None
        if len(there) > cache:
            there.popitem(last=False)
    return [miss / all for miss, all in zip(missed, asked, strict=True)]


@pytest.mark.parametrize("cache", [300, 1500, 3000])
def test_a_simulated_cache_of_another_size_is_predicted(cache: int) -> None:
    sizes, weights, present = [200, 1000, 4000], [3.0, 2.0, 1.0], 800
    now = lru_miss_ratios(sizes, weights, present)
    seen = [
        Reuse(name(number), weight, ratio, size)
        for number, (weight, ratio, size) in enumerate(zip(weights, now, sizes, strict=True))
    ]
    found = MissRatioCurve.of(seen, present).miss_ratios(cache)
    truth = lru_miss_ratios(sizes, weights, cache)
    for number, ratio in enumerate(truth):
        assert found[name(number)] == pytest.approx(ratio, abs=0.03)


def test_what_was_always_there_stays_there_in_a_larger_cache() -> None:
    seen = [Reuse(name(0), 100.0, 0.0, 50.0), Reuse(name(1), 10.0, 0.5, 1e6)]
    found = MissRatioCurve.of(seen, 1000).miss_ratios(5000)
    assert found[name(0)] < 1e-6
    assert found[name(1)] < 0.5
