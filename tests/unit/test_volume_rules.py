"""What a volume may be: whatever is asked, the least that is sold is sold, enough and cheapest."""

import itertools
import math

import numpy as np
import provider_documents
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgstow.catalog import load_shipped
from pgstow.model import HostSpec, Layout, Placement, Volume
from pgstow.rules import ProvisionedVolume, Requirement, VolumeRules, pieces, violation
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

CATALOG = load_shipped()
HOSTS = {
    "ec2": HostSpec("ec2", "us-east-1"),
    "rds": HostSpec("rds", "us-east-1"),
    "gce": HostSpec("gce", "us-central1"),
    "azure": HostSpec("azure", "eastus"),
}
WAYS = [
    (kind.name, platform, number)
    for platform, host in HOSTS.items()
    for kind in CATALOG.types(platform)
    if not kind.is_local
    for number, _ in enumerate(CATALOG.rules(kind.name, host))
]


def rules_of(way: tuple[str, str, int]) -> VolumeRules:
    name, platform, number = way
    return CATALOG.rules(name, HOSTS[platform])[number]


def has(rules: VolumeRules, one: ProvisionedVolume) -> tuple[float, float]:
    """IOPS and bytes per second that a volume with these figures has."""
    iops = one.iops if rules.iops.is_provisioned else None
    rate = one.bytes_per_s if rules.throughput.is_provisioned else None
    has_iops = rules.iops_of(one.size_bytes, iops)
    has_rate = rules.throughput_of(one.size_bytes, iops, rate)
    return (
        math.inf if has_iops is None else has_iops,
        math.inf if has_rate is None else has_rate,
    )


def is_sold(rules: VolumeRules, one: ProvisionedVolume) -> bool:
    iops = one.iops if rules.iops.is_provisioned else None
    rate = one.bytes_per_s if rules.throughput.is_provisioned else None
    return violation(rules, int(one.size_bytes), iops, rate) is None


def is_enough(rules: VolumeRules, one: ProvisionedVolume, asked: Requirement) -> bool:
    iops, rate = has(rules, one)
    slack = 1 - 1e-8
    return (
        one.size_bytes >= asked.size_bytes * slack
        and iops >= asked.iops * slack
        and rate >= asked.bytes_per_s * slack
    )


def whole(asked: float, step: float) -> float:
    return math.ceil(asked / step - 1e-9) * step


asks = st.builds(
    Requirement,
    st.one_of(st.floats(0, 400), st.floats(0, 20_000)).map(lambda gib: gib * GIB),
    st.one_of(st.floats(0, 8000), st.floats(0, 300_000)),
    st.one_of(st.floats(0, 900), st.floats(0, 5000)).map(lambda mibps: mibps * MIB),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(WAYS), asks)
def test_the_least_is_sold_and_enough_and_nothing_less_is(
    way: tuple[str, str, int], asked: Requirement
) -> None:
    rules = rules_of(way)
    least = rules.least(asked)
    assume(least is not None)
    assert least is not None
    assert is_sold(rules, least)
    assert is_enough(rules, least, asked)
    steps = (rules.step_bytes or 1, 1.0, rules.throughput.step)
    for less in (
        ProvisionedVolume(least.size_bytes - steps[0], least.iops, least.bytes_per_s),
        ProvisionedVolume(least.size_bytes, least.iops - steps[1], least.bytes_per_s),
        ProvisionedVolume(least.size_bytes, least.iops, least.bytes_per_s - steps[2]),
    ):
        if less.iops < least.iops and not rules.iops.is_provisioned:
            continue
        if less.bytes_per_s < least.bytes_per_s and not rules.throughput.is_provisioned:
            continue
        assert not (is_sold(rules, less) and is_enough(rules, less, asked)), less


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WAYS), asks, st.integers(0, 10**6))
def test_no_volume_nearby_that_is_enough_costs_less(
    way: tuple[str, str, int], asked: Requirement, seed: int
) -> None:
    """Beside it: larger sizes with fewer IOPS, more IOPS with less throughput, and so on."""
    rules = rules_of(way)
    least = rules.least(asked)
    assume(least is not None and rules.usd_month(least) is not None)
    assert least is not None
    usd = rules.usd_month(least)
    random = np.random.default_rng(seed)
    step = rules.step_bytes or 1
    for _ in range(40):
        offset = random.integers(-40, 41, 3)
        other = ProvisionedVolume(
            max(step, least.size_bytes + int(offset[0]) * step),
            max(1.0, least.iops + float(offset[1])) if rules.iops.is_provisioned else least.iops,
            max(1.0, least.bytes_per_s + float(offset[2]) * rules.throughput.step)
            if rules.throughput.is_provisioned
            else least.bytes_per_s,
        )
        if is_sold(rules, other) and is_enough(rules, other, asked):
            price = rules.usd_month(other)
            assert price is None or price >= (usd or 0.0) - 1e-6


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(provider_documents.TYPES)), asks)
def test_the_least_costs_what_the_providers_documents_say(kind: str, asked: Requirement) -> None:
    rules = CATALOG.rules(kind, HOSTS["ec2"])[0]
    least = rules.least(asked, is_whole=False)
    by_documents = provider_documents.TYPES[kind](
        np.array([asked.size_bytes / GIB]),
        np.array([asked.iops]),
        np.array([asked.bytes_per_s / MIB]),
    )[0]
    if least is None:
        assert math.isinf(by_documents)
        return
    assert rules.usd_month(least) == pytest.approx(by_documents, rel=1e-6, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(WAYS), asks)
def test_the_pieces_hold_what_is_sold_at_its_price(
    way: tuple[str, str, int], asked: Requirement
) -> None:
    rules = rules_of(way)
    least = rules.least(asked, is_whole=False)
    usd = None if least is None else rules.usd_month(least)
    assume(least is not None and usd is not None)
    assert least is not None
    point = (least.size_bytes / GIB, least.iops, least.bytes_per_s / MIB)
    slack = 1e-6 * max(1.0, *point)
    prices = [
        piece.usd_month.at(*point)
        for piece in pieces(rules)
        if piece.min_gib - slack <= point[0] <= piece.max_gib + slack
        and piece.min_iops - slack <= point[1] <= piece.max_iops + slack
        and piece.min_mibps - slack <= point[2] <= piece.max_mibps + slack
        and all(bound.at(*point) >= -slack for bound in piece.bounds)
    ]
    assert prices
    assert min(prices) == pytest.approx(usd, rel=1e-6, abs=1e-5)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(WAYS), st.integers(0, 10**6))
def test_every_point_of_a_piece_is_sold(way: tuple[str, str, int], seed: int) -> None:
    rules = rules_of(way)
    random = np.random.default_rng(seed)
    for piece in pieces(rules):
        gib = float(random.integers(math.ceil(piece.min_gib), math.floor(piece.max_gib) + 1))
        iops = float(random.uniform(piece.min_iops, piece.max_iops))
        mibps = float(random.uniform(piece.min_mibps, piece.max_mibps))
        if any(bound.at(gib, iops, mibps) < 0 for bound in piece.bounds):
            continue
        asked = Requirement(gib * GIB, iops, mibps * MIB)
        least = rules.least(asked, is_whole=False)
        assert least is not None
        assert least.size_bytes <= asked.size_bytes * (1 + 1e-9)
        usd = rules.usd_month(least)
        assert usd is not None and usd <= piece.usd_month.at(gib, iops, mibps) + 1e-6


@pytest.mark.parametrize(
    ("mibps", "expected"),
    [(800.3, (801, 3204)), (750.0, (750, 3000)), (750.1, (751, 3004)), (2000.0, (2000, 8000))],
)
def test_iops_and_throughput_of_gp3_are_rounded_together(
    mibps: float, expected: tuple[int, int]
) -> None:
    rules = CATALOG.rules("gp3", HOSTS["ec2"])[0]
    least = rules.least(Requirement(100 * GIB, mibps / 0.25, mibps * MIB))
    assert least is not None
    assert (least.bytes_per_s / MIB, least.iops) == expected


def test_azures_throughput_is_decimal() -> None:
    rules = CATALOG.rules("premium-ssd-v2", HOSTS["azure"])[0]
    least = rules.least(Requirement(100 * GIB, 3000, 110 * MIB))
    assert least is not None
    assert least.bytes_per_s == 125e6  # what is included, and not 120 MiB/s that are bought
    assert rules.usd_month(least) == pytest.approx(100 * 0.0803)
    more = rules.least(Requirement(100 * GIB, 3000, 125e6 + 1))
    assert more is not None
    assert more.bytes_per_s == 126e6
    assert rules.usd_month(more) == pytest.approx(100 * 0.0803 + 0.04015)


def test_hyperdisk_balanced_has_its_ratios() -> None:
    rules = CATALOG.rules("hyperdisk-balanced", HOSTS["gce"])[0]
    small = violation(rules, 10 * GIB, 6000, None)
    assert small is not None and "500 IOPS per GiB" in small.why
    fast = violation(rules, 100 * GIB, 4000, 1001 * MIB)
    assert fast is not None and "0.25 MiB/s per IOPS" in fast.why
    least = rules.least(Requirement(GIB, 0, 1000 * MIB))
    assert least == ProvisionedVolume(8 * GIB, 4000, 1000 * MIB)


def test_rds_has_a_least_of_iops_for_each_gib() -> None:
    _, striped = CATALOG.rules("rds-io2", HOSTS["rds"])
    refused = violation(striped, 10_000 * GIB, 4999, None)
    assert refused is not None and "0.5 IOPS per GiB" in refused.why
    assert striped.least(Requirement(10_000 * GIB)) == ProvisionedVolume(10_000 * GIB, 5000, 0.0)
    most = striped.least(Requirement(400 * GIB, 256_000, 16_000 * MIB))
    assert most is not None
    assert striped.least(Requirement(400 * GIB, 256_001)) is None


@pytest.mark.parametrize("iops", [3000.5, 4000.25])
def test_iops_are_sold_whole(iops: float) -> None:
    rules = CATALOG.rules("gp3", HOSTS["ec2"])[0]
    refused = violation(rules, 100 * GIB, iops, None)
    assert refused is not None and "no whole number" in refused.why
    assert violation(rules, 100 * GIB, math.ceil(iops), None) is None


def test_throughput_is_sold_by_the_providers_unit() -> None:
    gp3, v2 = CATALOG.rules("gp3", HOSTS["ec2"])[0], CATALOG.rules("premium-ssd-v2", HOSTS["azure"])
    refused = violation(gp3, 100 * GIB, 4000, 200e6)
    assert refused is not None and refused.fix == "use 191MiB/s"
    refused = violation(v2[0], 100 * GIB, 4000, 200 * MIB)
    assert refused is not None and refused.fix == "use 210MB/s"
    assert violation(v2[0], 100 * GIB, 4000, 200e6) is None


@pytest.mark.parametrize(("name", "platform"), sorted({(n, p) for n, p, _ in WAYS}))
def test_the_check_takes_what_the_rules_call_least(name: str, platform: str) -> None:
    """The catalog's check of a layout and the rules are one."""
    host = HOSTS[platform]
    for rules, iops, mibps in itertools.product(
        CATALOG.rules(name, host), (0, 3100, 9000), (0, 801)
    ):
        least = rules.least(Requirement(0, iops, mibps * MIB))
        if least is None:
            continue
        kind = CATALOG.volume_type(name)
        volume = Volume(
            "v",
            name,
            Bytes(int(least.size_bytes)),
            "/v",
            iops=Iops(least.iops) if rules.iops.is_provisioned else None,
            throughput=BytesPerSecond(least.bytes_per_s)
            if rules.throughput.is_provisioned
            else None,
        )
        if kind.holds == "wal":
            continue
        CATALOG.check(Layout(host, (volume,), Placement("v", "v")))
        usd = rules.usd_month(least)
        assert CATALOG.price(volume, host).usd_month == (
            None if usd is None else pytest.approx(usd, abs=1e-5)
        )
