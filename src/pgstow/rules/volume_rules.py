"""The rules of one volume as it is sold in one region: what it may be, what it does, what it costs.

IOPS are bounded by the size, throughput by the IOPS, and some types require a least of either for
each GiB or IOPS. All of these bounds grow with what they follow from, so of two volumes that obey
them the smaller size, IOPS and throughput obey them too: there is one least volume that is enough
for what is asked, and no other that is enough costs less.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from pgstow.rules.facts import IopsRule, PriceTier, ThroughputRule, TypePrice
from pgstow.units import GIB, MIB, TIB, Bytes

_EPSILON = 1e-9  # of a quantity: what arithmetic in floats may be off by
_ROUNDS = 64  # of raising one bound after another; every rule in use has converged after three


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a volume must have at least."""

    size_bytes: float
    iops: float = 0.0
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ProvisionedVolume:
    """One volume: its size, and the performance it has or is given."""

    size_bytes: float
    iops: float
    bytes_per_s: float


@dataclass(frozen=True)
class VolumeRules:
    """Sizes in bytes, from ``min_bytes`` to ``max_bytes`` by ``step_bytes``; None: no limit."""

    type: str
    min_bytes: Bytes | None
    max_bytes: Bytes | None
    step_bytes: Bytes | None
    iops: IopsRule
    throughput: ThroughputRule
    price: TypePrice | None = None

    # ------------------------------------------------------------ what a volume has

    def iops_of(self, size_bytes: float, given: float | None = None) -> float | None:
        """Sustained operations per second of a size; None: no limit."""
        rule = self.iops
        if given is not None:
            return given
        if rule.per_gib is not None:
            return _between(rule.base + rule.per_gib * size_bytes / GIB, rule.min, rule.max)
        least = rule.included if rule.included is not None else rule.min
        if rule.is_provisioned and least is not None and rule.per_gib_min is not None:
            return max(least, rule.per_gib_min * size_bytes / GIB)
        return least

    def throughput_of(
        self, size_bytes: float, iops: float | None = None, given: float | None = None
    ) -> float | None:
        """Sustained bytes per second of a size with IOPS as given; None: no limit."""
        rule = self.throughput
        if given is not None:
            return given
        if rule.per_tib is not None:
            return _between(rule.base + rule.per_tib * size_bytes / TIB, rule.min, rule.max)
        if rule.by_size:
            steps = [step.limit for step in rule.by_size if size_bytes <= step.to_bytes]
            return steps[0] if steps else rule.by_size[-1].limit
        has = self.iops_of(size_bytes, iops) or 0.0
        if rule.by_iops:
            return max(min(piece.max, piece.per_iops * has) for piece in rule.by_iops)
        least: float | None = rule.included if rule.included is not None else rule.min
        if rule.is_provisioned and least is not None and rule.per_iops_min is not None:
            return max(least, rule.per_iops_min * has)
        return least

    def most_iops(self, size_bytes: float) -> float:
        """The most operations per second that a volume of a size can have."""
        rule = self.iops
        if not rule.is_provisioned:
            has = self.iops_of(size_bytes)
            return math.inf if has is None else has
        most = rule.max if rule.max is not None else math.inf
        if rule.per_gib_max is None:
            return most
        return min(most, max(rule.per_gib_max * size_bytes / GIB, rule.floor))

    def most_throughput(self, size_bytes: float, iops: float) -> float:
        """The most bytes per second that a volume of a size and IOPS can have."""
        rule = self.throughput
        if not rule.is_provisioned:
            has = self.throughput_of(size_bytes, iops)
            return math.inf if has is None else has
        most: float = rule.max if rule.max is not None else math.inf
        if rule.per_iops_max is None:
            return most
        return min(most, max(rule.per_iops_max * iops, rule.floor))

    # ------------------------------------------------------------ the least that is enough

    def least(self, asked: Requirement, *, is_whole: bool = True) -> ProvisionedVolume | None:
        """The cheapest volume that meets the requirement; None where none is sold.

        ``is_whole``: on the provider's grid; else only the size is, IOPS and throughput may be any.
        """
        size = self._size_from(asked.size_bytes)
        iops = self._iops_from(asked.iops, is_whole=is_whole)
        rate = self._rate_from(asked.bytes_per_s, is_whole=is_whole)
        for _ in range(_ROUNDS):
            more_iops = self._iops_from(max(iops, self._iops_for(size, rate)), is_whole=is_whole)
            more_rate = self._rate_from(max(rate, self._rate_for(more_iops)), is_whole=is_whole)
            more_size = self._size_from(max(size, self._size_for(more_iops, more_rate)))
            if (more_size, more_iops, more_rate) == (size, iops, rate):
                break
            size, iops, rate = more_size, more_iops, more_rate
            if math.inf in (size, iops):
                return None
        found = ProvisionedVolume(size, iops, rate)
        return found if self._is_offered(found) else None

    def _is_offered(self, one: ProvisionedVolume) -> bool:
        slack = 1 + _EPSILON
        fits = self.max_bytes is None or one.size_bytes <= self.max_bytes * slack
        return (
            fits
            and one.iops <= self.most_iops(one.size_bytes) * slack
            and one.bytes_per_s <= self.most_throughput(one.size_bytes, one.iops) * slack
        )

    def _size_from(self, size: float) -> float:
        """The next size on the grid."""
        return _up(max(size, self.min_bytes or 0), self.step_bytes or 0)

    def _iops_from(self, iops: float, *, is_whole: bool) -> float:
        rule = self.iops
        if not rule.is_provisioned:
            return iops
        return _up(max(iops, rule.floor), 1.0 if is_whole else 0.0)

    def _rate_from(self, rate: float, *, is_whole: bool) -> float:
        rule = self.throughput
        if not rule.is_provisioned:
            return rate
        return _up(max(rate, rule.floor), rule.step if is_whole else 0.0)

    def _iops_for(self, size: float, rate: float) -> float:
        """The least IOPS that a size and a throughput require."""
        iops, bytes_rule = self.iops, self.throughput
        required = 0.0
        if iops.is_provisioned and iops.per_gib_min is not None:
            required = iops.per_gib_min * size / GIB
        if bytes_rule.is_provisioned and bytes_rule.per_iops_max and rate > bytes_rule.floor:
            required = max(required, rate / bytes_rule.per_iops_max)
        if bytes_rule.by_iops:
            ways = [rate / one.per_iops for one in bytes_rule.by_iops if rate <= one.max]
            required = max(required, min(ways, default=math.inf))
        return required

    def _rate_for(self, iops: float) -> float:
        """The least throughput that IOPS require."""
        rule = self.throughput
        is_bound = rule.is_provisioned and rule.per_iops_min is not None
        return (rule.per_iops_min or 0.0) * iops if is_bound else 0.0

    def _size_for(self, iops: float, rate: float) -> float:
        """The least size that IOPS and a throughput require."""
        rule, bytes_rule = self.iops, self.throughput
        required = 0.0
        ratio = rule.per_gib_max if rule.is_provisioned else rule.per_gib
        if ratio and iops > rule.floor:
            base = 0.0 if rule.is_provisioned else rule.base
            required = (iops - base) / ratio * GIB
        if bytes_rule.per_tib is not None:
            required = max(required, (rate - bytes_rule.base) / bytes_rule.per_tib * TIB)
        if bytes_rule.by_size:
            required = max(required, self._size_of_step(rate))
        return required

    def _size_of_step(self, rate: float) -> float:
        """The least size whose step of throughput is enough."""
        below = 0.0
        for step in self.throughput.by_size:
            if rate <= step.limit * (1 + _EPSILON):
                return below
            below = step.to_bytes + (self.step_bytes or 1)
        return math.inf

    # ------------------------------------------------------------ what it costs

    def usd_month(self, one: ProvisionedVolume) -> float | None:
        """What a volume costs a month; None: not known."""
        price = self.price
        if price is None or (price.usd_per_gib is None and not price.is_included):
            return None
        if price.is_included:
            return 0.0
        usd = price.usd_fixed + (price.usd_per_gib or 0.0) * one.size_bytes / GIB
        if self.iops.is_provisioned and one.iops > (self.iops.included or 0.0):
            if not price.iops_tiers or one.iops > self.known_iops:
                return None
            usd += self.iops_usd(one.iops)
        rate = self.throughput
        if rate.is_provisioned and one.bytes_per_s > (rate.included or 0.0):
            if price.usd_per_mibps is None:
                return None
            usd += (one.bytes_per_s - (rate.included or 0.0)) / MIB * price.usd_per_mibps
        return usd

    @property
    def known_iops(self) -> float:
        """Up to how many IOPS their price is known."""
        known = None if self.price is None else self.price.iops_known_to
        return math.inf if known is None else known

    def iops_usd(self, iops: float) -> float:
        """What IOPS cost, tier by tier."""
        return sum((min(iops, high) - tier.over_iops) * tier.usd for tier, high in self.tiers(iops))

    def tiers(self, iops: float) -> list[tuple[PriceTier, float]]:
        """The price tiers that IOPS reach, each with where it ends."""
        every = self.price.iops_tiers if self.price is not None else ()
        ends = [*(tier.over_iops for tier in every[1:]), math.inf][: len(every)]
        return [(tier, end) for tier, end in zip(every, ends, strict=True) if iops > tier.over_iops]

    # ------------------------------------------------------------ one more of each

    @cached_property
    def usd_per_gib(self) -> float:
        """The price of one more GiB; 0 where it is not known."""
        return (self.price.usd_per_gib if self.price else None) or 0.0

    @cached_property
    def usd_per_iops(self) -> float:
        """The price of one more IOPS that is bought, in the first tier; 0 where none are sold."""
        tiers = self.price.iops_tiers if self.price else ()
        return tiers[0].usd if tiers and self.iops.is_provisioned else 0.0

    @cached_property
    def usd_per_mibps(self) -> float:
        """The price of one more MiB/s that is bought; 0 where none is sold."""
        usd = self.price.usd_per_mibps if self.price else None
        return (usd or 0.0) if self.throughput.is_provisioned else 0.0

    def gib_for(self, gib: float, iops: float, bytes_per_s: float) -> float:
        """The GiB that are bought for what is stored and for I/O beyond what any size has."""
        ratio = self.iops.per_gib_max if self.iops.is_provisioned else self.iops.per_gib
        if ratio:
            gib = max(gib, iops / ratio)
        if self.throughput.per_tib:
            gib = max(gib, bytes_per_s / self.throughput.per_tib * TIB / GIB)
        return gib


def _between(value: float, low: float | None, high: float | None) -> float:
    if low is not None:
        value = max(value, low)
    return value if high is None else min(value, high)


def _up(value: float, step: float) -> float:
    """The next multiple of a step, within float rounding; without a step the value."""
    if not step or value == math.inf:
        return value
    count = math.ceil(value / step - _EPSILON * max(1.0, value / step))
    return count * step
