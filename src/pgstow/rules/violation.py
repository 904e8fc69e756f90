"""Why a volume is not sold: which of its figures breaks which rule, and what would be sold."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pgstow.rules.facts import ThroughputRule
from pgstow.rules.volume_rules import Requirement, VolumeRules
from pgstow.units import GIB, MIB, Bytes, format_exact_size

_EPSILON = 1e-9
Key = Literal["size", "iops", "throughput"]
Given = tuple[float | None, float | None]  # IOPS and throughput


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule in words, and what would be sold."""

    key: Key
    why: str
    fix: str


def violation(
    rules: VolumeRules, size_bytes: int, iops: float | None, throughput: float | None
) -> Violation | None:
    """Why no provider sells this; None: it is sold."""
    given = iops, throughput
    found = chain(
        _size(rules, size_bytes),
        _early(rules, size_bytes, given),
        _iops(rules, size_bytes, iops),
        _throughput(rules, size_bytes, given),
    )
    return next(found, None)


def _size(rules: VolumeRules, size: int) -> Iterator[Violation]:
    low, high, step = rules.min_bytes, rules.max_bytes, rules.step_bytes
    text, name = format_exact_size(size), rules.type
    if low is not None and size < low:
        least = format_exact_size(low)
        yield Violation("size", f"{text} is under {name}'s least, {least}", f"use at least {least}")
    if high is not None and size > high:
        most = format_exact_size(high)
        why = f"{text} is over {name}'s most, {most}"
        yield Violation("size", why, f"use at most {most} a member, or stripes")
    if step is not None and size % step:
        why = f"{text} is no multiple of {format_exact_size(step)}, in which {name} is sold"
        yield Violation("size", why, f"use {format_exact_size(Bytes(-(-size // step) * step))}")


def _early(rules: VolumeRules, size: int, given: Given) -> Iterator[Violation]:
    """IOPS and throughput below the size from which they may be set."""
    least = rules.iops.provisioned_from_bytes
    if least is None or size >= least:
        return
    keys: tuple[Key, Key] = ("iops", "throughput")
    for key, value in zip(keys, given, strict=True):
        if value is not None:
            why = f"cannot be set for {rules.type} of less than {format_exact_size(least)}"
            fix = f"drop {key}, or use a size of at least {format_exact_size(least)}"
            yield Violation(key, why, fix)


def _iops(rules: VolumeRules, size: int, iops: float | None) -> Iterator[Violation]:
    rule, name = rules.iops, rules.type
    if iops is None:
        if rule.is_provisioned and rule.included is None:
            least = rules.least(Requirement(size))
            count = rule.min or 0.0 if least is None else least.iops
            why = f"none are given, and {name} is bought by IOPS"
            yield Violation("iops", why, f"write iops = {count:.0f} or more")
        return
    text = f"{iops:,.10g}"
    if not (rule.is_provisioned or rule.is_declared):
        why = f"{text} cannot be set for {name}, whose IOPS follow from its type and size"
        yield Violation("iops", why, "drop iops")
    if not 0 < iops < math.inf:
        yield Violation("iops", f"{text} is no number of IOPS", "drop iops")
    elif rule.is_provisioned and iops % 1:
        why = f"{text} is no whole number, in which {name}'s are sold"
        yield Violation("iops", why, f"use {math.ceil(iops)}")
    if rule.min is not None and iops < rule.min:
        why = f"{text} is under {name}'s least, {rule.min:,.0f}"
        yield Violation("iops", why, f"use at least {rule.min:,.0f}")
    if rule.max is not None and iops > rule.max:
        why = f"{text} is over {name}'s most, {rule.max:,.0f}"
        yield Violation("iops", why, f"use at most {rule.max:,.0f}, or stripes")
    yield from _iops_of_size(rules, size, iops)


def _iops_of_size(rules: VolumeRules, size: int, iops: float) -> Iterator[Violation]:
    """The bounds that follow from the size."""
    rule, text, gib = rules.iops, f"{iops:,.10g}", size / GIB
    most = rules.most_iops(size)
    if rule.per_gib_max is not None and iops > most * (1 + _EPSILON):
        ratio = f"{rule.per_gib_max:,.0f} IOPS per GiB × {gib:,.10g} GiB"
        need = math.ceil(iops / rule.per_gib_max)
        why = f"{text} is over {rules.type}'s {ratio} = {rule.per_gib_max * gib:,.0f}"
        yield Violation("iops", why, f"use at most {most:,.0f}, or a size of at least {need}GiB")
    least = (rule.per_gib_min or 0.0) * gib
    if rule.is_provisioned and iops < least * (1 - _EPSILON):
        why = (
            f"{text} is under {rules.type}'s {rule.per_gib_min:g} IOPS per GiB × {gib:,.10g} GiB = "
            f"{least:,.0f}"
        )
        yield Violation("iops", why, f"use at least {math.ceil(least):,}")


def _throughput(rules: VolumeRules, size: int, given: Given) -> Iterator[Violation]:
    rule, name = rules.throughput, rules.type
    iops, rate = given
    if rate is None:
        return
    text = written(rule, rate)
    if not (rule.is_provisioned or rule.is_declared):
        why = f"{text} cannot be set for {name}, whose throughput follows from the rest"
        yield Violation("throughput", why, "drop throughput")
    if not 0 < rate < math.inf:
        yield Violation("throughput", f"{text} is no throughput", "drop throughput")
        return
    if rule.min is not None and rate < rule.min:
        least = written(rule, rule.min)
        why = f"{text} is under {name}'s least, {least}"
        yield Violation("throughput", why, f"use at least {least}")
    if rule.max is not None and rate > rule.max:
        most = written(rule, rule.max)
        why = f"{text} is over {name}'s most, {most}"
        yield Violation("throughput", why, f"use at most {most}, or stripes")
    count = rate / rule.step
    if rule.is_provisioned and abs(count - round(count)) > _EPSILON * count:
        why = f"{text} is no whole number of {rule.unit}, in which {name}'s is sold"
        yield Violation("throughput", why, f"use {math.ceil(count)}{rule.unit}")
    yield from _throughput_of_iops(rules, rate, rules.iops_of(size, iops))


def _throughput_of_iops(rules: VolumeRules, rate: float, iops: float | None) -> Iterator[Violation]:
    """The bounds that follow from the IOPS."""
    rule = rules.throughput
    if iops is None:
        return
    text = written(rule, rate)
    for ratio, is_over in ((rule.per_iops_max, True), (rule.per_iops_min, False)):
        if ratio is None:
            continue
        bound = ratio * iops
        allowed = max(bound, rule.floor) if is_over else bound
        if rate <= allowed * (1 + _EPSILON) if is_over else rate >= allowed * (1 - _EPSILON):
            continue
        side = "over" if is_over else "under"
        step = 1e6 if rule.unit == "MB/s" else MIB
        of_each = f"{ratio / step:.10g} {rule.unit} per IOPS × {iops:,.10g} IOPS"
        why = f"{text} is {side} {rules.type}'s {of_each} = {written(rule, bound)}"
        if is_over:
            fix = f"use at most {_floor(rule, allowed)}, or iops = {math.ceil(rate / ratio)}"
        else:
            fix = f"use at least {math.ceil(bound / rule.step)}{rule.unit}, or fewer IOPS"
        yield Violation("throughput", why, fix)


def written(rule: ThroughputRule, rate: float) -> str:
    """A bandwidth in the provider's unit, as layouts are written.

    >>> written(ThroughputRule(), 125 * MIB)
    '125MiB/s'
    """
    return f"{rate / rule.step:.10g}{rule.unit}"


def _floor(rule: ThroughputRule, rate: float) -> str:
    return f"{math.floor(rate / rule.step + _EPSILON)}{rule.unit}"
