"""A type's rules as pieces in which every bound and the price are linear, for linear models.

What a volume may be is no convex set: gp3's 3,000 IOPS come with any size and 500 per GiB beyond,
gp2's throughput has a step, io2's IOPS cost less in the next tier. Each piece is convex; together
they are all that is sold, and no more. Quantities are GiB, IOPS and MiB/s of one volume.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pgstow.rules.facts import TypePrice
from pgstow.rules.volume_rules import VolumeRules
from pgstow.units import GIB, MIB

UNLIMITED_IOPS, UNLIMITED_MIBPS = 1e7, 1e5  # of what has no limit: far beyond what is used


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear function of a volume: ``constant`` and so much for each GiB, IOPS and MiB/s."""

    constant: float = 0.0
    gib: float = 0.0
    iops: float = 0.0
    mibps: float = 0.0

    def at(self, gib: float, iops: float, mibps: float) -> float:
        """Its value."""
        return self.constant + self.gib * gib + self.iops * iops + self.mibps * mibps


@dataclass(frozen=True, slots=True)
class Piece:
    """Volumes of which all ``bounds`` are at least 0, at the price ``usd_month``."""

    min_gib: float
    max_gib: float
    min_iops: float
    max_iops: float
    min_mibps: float
    max_mibps: float
    bounds: tuple[Linear, ...]
    usd_month: Linear


@dataclass(frozen=True, slots=True)
class _Part:
    """One convex part of rules that are not convex: narrower ranges, and bounds."""

    min_gib: float = 0.0
    max_gib: float = math.inf
    min_iops: float = 0.0
    max_iops: float = math.inf
    max_mibps: float = math.inf
    bounds: tuple[Linear, ...] = ()
    usd_constant: float = 0.0
    usd_per_iops: float = 0.0


@cache
def pieces(rules: VolumeRules) -> tuple[Piece, ...]:
    """All volumes with a known price, as few pieces as will do; none where no price is known."""
    price = rules.price
    if price is None or (price.usd_per_gib is None and not price.is_included):
        return ()
    found = [
        piece
        for size in _by_size(rules)
        for cost in _by_price(rules)
        for rate in _by_throughput(rules)
        if (piece := _piece(rules, price, (size, cost, rate))) is not None
    ]
    return tuple(one for one in found if not any(_holds(o, one) for o in found if o is not one))


def _piece(rules: VolumeRules, price: TypePrice, parts: tuple[_Part, ...]) -> Piece | None:
    """Where all the parts hold at once; None: nowhere."""
    step = (rules.step_bytes or 0) / GIB
    low, high = _least_gib(rules, parts), min(_most_gib(rules), *(p.max_gib for p in parts))
    if step:
        low, high = math.ceil(low / step - 1e-9) * step, math.floor(high / step + 1e-9) * step
    iops, rate = rules.iops, rules.throughput
    most_iops = min(iops.max or math.inf, UNLIMITED_IOPS, *(p.max_iops for p in parts))
    least_iops = max(iops.floor if iops.is_provisioned else 0.0, *(p.min_iops for p in parts))
    most_rate = min(rate.max or math.inf, *(p.max_mibps * MIB for p in parts)) / MIB
    least_rate = rate.floor / MIB if rate.is_provisioned else 0.0
    if low > high or least_iops > most_iops or least_rate > most_rate:
        return None
    bounds = tuple(bound for part in parts for bound in part.bounds)
    if any(not _reachable(b, high, least_iops, most_iops, least_rate) for b in bounds):
        return None
    constant = price.usd_fixed + sum(part.usd_constant for part in parts)
    per_mibps = rules.usd_per_mibps
    if rate.is_provisioned:
        constant -= per_mibps * (rate.included or 0.0) / MIB
    return Piece(
        min_gib=low,
        max_gib=high,
        min_iops=least_iops,
        max_iops=most_iops,
        min_mibps=least_rate,
        max_mibps=min(most_rate, UNLIMITED_MIBPS),
        bounds=bounds,
        usd_month=Linear(
            constant, rules.usd_per_gib, sum(p.usd_per_iops for p in parts), per_mibps
        ),
    )


def _reachable(
    bound: Linear, most_gib: float, least_iops: float, most_iops: float, least_rate: float
) -> bool:
    """Whether any volume keeps a bound: its largest value is at least 0."""
    gib = most_gib if bound.gib > 0 else 0.0
    iops = most_iops if bound.iops > 0 else least_iops
    terms = ((bound.gib, gib), (bound.iops, iops), (bound.mibps, least_rate))
    return bound.constant + sum(each * value for each, value in terms if each) >= -1e-9


def _least_gib(rules: VolumeRules, parts: tuple[_Part, ...]) -> float:
    return max((rules.min_bytes or 0) / GIB, *(part.min_gib for part in parts))


def _most_gib(rules: VolumeRules) -> float:
    return math.inf if rules.max_bytes is None else rules.max_bytes / GIB


def _by_size(rules: VolumeRules) -> Iterator[_Part]:
    """How the most IOPS follow from the size: what any size has, and what grows with it."""
    rule = rules.iops
    ratio = rule.per_gib_max if rule.is_provisioned else rule.per_gib
    base = 0.0 if rule.is_provisioned else rule.base
    floor = rule.floor
    least = _least_of_size(rules)
    if not ratio:
        has = rules.iops_of(rules.min_bytes or 0)
        most = math.inf if rule.is_provisioned or has is None else has
        yield _Part(max_iops=most, bounds=least)
        return
    if base + ratio * (rules.min_bytes or 0) / GIB < floor:
        yield _Part(max_iops=floor, bounds=least)
    grows = Linear(constant=base, gib=ratio, iops=-1.0)
    # below this size the part before has more
    yield _Part(min_gib=max(0.0, (floor - base) / ratio), bounds=(grows, *least))


def _least_of_size(rules: VolumeRules) -> tuple[Linear, ...]:
    """The least IOPS that a size requires."""
    rule = rules.iops
    if not rule.is_provisioned or rule.per_gib_min is None:
        return ()
    return (Linear(gib=-rule.per_gib_min, iops=1.0),)


def _by_price(rules: VolumeRules) -> Iterator[_Part]:
    """The tiers of the price of IOPS, each at a price of its own."""
    rule, price = rules.iops, rules.price
    if not rule.is_provisioned or price is None:
        yield _Part()
        return
    if not price.iops_tiers:
        if rule.included is not None:  # what costs extra has no known price
            yield _Part(max_iops=rule.included)
        return
    paid, known = 0.0, rules.known_iops
    ends = [*(tier.over_iops for tier in price.iops_tiers[1:]), math.inf]
    for tier, end in zip(price.iops_tiers, ends, strict=True):
        yield _Part(
            min_iops=tier.over_iops,
            max_iops=min(end, known),
            usd_constant=paid - tier.usd * tier.over_iops,
            usd_per_iops=tier.usd,
        )
        if end >= known:
            return
        paid += tier.usd * (end - tier.over_iops)


def _by_throughput(rules: VolumeRules) -> Iterator[_Part]:
    """How the most throughput follows from the rest."""
    rule = rules.throughput
    if rule.is_provisioned:
        yield from _of_provisioned(rules)
    elif rule.per_tib is not None:
        per_gib = rule.per_tib / 1024 / MIB
        yield _Part(bounds=(Linear(constant=rule.base / MIB, gib=per_gib, mibps=-1.0),))
    elif rule.by_size:
        below = 0.0
        for step in rule.by_size:
            yield _Part(min_gib=below, max_mibps=step.limit / MIB)
            below = (step.to_bytes + (rules.step_bytes or 1)) / GIB
    elif rule.by_iops:
        before = 0.0
        for one in rule.by_iops:
            follows = Linear(iops=one.per_iops / MIB, mibps=-1.0)
            least = before / one.per_iops  # with fewer IOPS the one before has as much
            yield _Part(min_iops=least, max_mibps=one.max / MIB, bounds=(follows,))
            before = one.max
    else:
        has = rule.included
        yield _Part(max_mibps=math.inf if has is None else has / MIB)


def _of_provisioned(rules: VolumeRules) -> Iterator[_Part]:
    rule, price = rules.throughput, rules.price
    low: tuple[Linear, ...] = ()
    if rule.per_iops_min is not None:
        low = (Linear(iops=-rule.per_iops_min / MIB, mibps=1.0),)
    floor = rule.floor / MIB
    if price is None or price.usd_per_mibps is None:  # what costs extra has no known price
        if rule.included is not None:
            yield _Part(max_mibps=rule.included / MIB, bounds=low)
        return
    if rule.per_iops_max is None:
        yield _Part(bounds=low)
        return
    ratio = rule.per_iops_max / MIB
    if ratio * rules.iops.floor < floor:
        yield _Part(max_mibps=floor, bounds=low)
    grows = Linear(iops=ratio, mibps=-1.0)
    yield _Part(min_iops=floor / ratio, bounds=(grows, *low))


def _holds(one: Piece, other: Piece) -> bool:
    """Whether all of another piece is in one, at no other price."""
    if one.usd_month != other.usd_month or one == other:
        return False
    lows = ((one.min_gib, other.min_gib), (one.min_iops, other.min_iops))
    highs = ((one.max_gib, other.max_gib), (one.max_iops, other.max_iops))
    return (
        all(mine <= its for mine, its in (*lows, (one.min_mibps, other.min_mibps)))
        and all(mine >= its for mine, its in (*highs, (one.max_mibps, other.max_mibps)))
        and all(bound in other.bounds or _always(bound, other) for bound in one.bounds)
    )


def _always(bound: Linear, piece: Piece) -> bool:
    """Whether a bound is kept in all of a piece's ranges."""
    gib = piece.min_gib if bound.gib > 0 else piece.max_gib
    iops = piece.min_iops if bound.iops > 0 else piece.max_iops
    mibps = piece.min_mibps if bound.mibps > 0 else piece.max_mibps
    terms = ((bound.gib, gib), (bound.iops, iops), (bound.mibps, mibps))
    return bound.constant + sum(each * value for each, value in terms if each) >= 0
