"""Placement problems from seeds, and an independent check of their answers."""

from dataclasses import replace

import numpy as np
import provider_documents

from pgstow.catalog import load_shipped
from pgstow.model import HostSpec
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.candidates import candidate_of
from pgstow.planning.placement import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    ItemClasses,
    Items,
    PlacementProblem,
    PlacementSolution,
    SpecialItems,
)
from pgstow.planning.placement.problem import Floats, Ints
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB

RESOURCES = 4  # GiB, random reads/s, writes/s, sequential reads of 128 KiB/s


def candidate(key: str, volume_type: str, stripes: int = 1, **different: object) -> CandidateVolume:
    """A candidate of a type by the shipped catalog, as quick as gp3 but for what is given."""
    catalog = load_shipped()
    rules = catalog.rules(volume_type, HostSpec("ec2", "us-east-1"))[0]
    one = candidate_of(catalog.volume_type(volume_type), rules, stripes, None)
    assert one is not None
    values: dict[str, object] = {
        "key": key,
        "read_us": 1000.0,
        "write_us": 1800.0,
        "read_us_p99": 1500.0,
        "write_us_p99": 2700.0,
    }
    return replace(one, **(values | different))  # type: ignore[arg-type]


GP3 = candidate("gp3", "gp3")
GP2 = candidate("gp2", "gp2")
IO2 = candidate("io2", "io2", read_us=250.0, write_us=300.0)
ST1 = candidate(
    "st1", "st1", read_us=9000.0, write_us=9000.0, random_io_bytes=1024 * 1024, is_hdd=True
)
STRIPE = candidate("gp3x2", "gp3", 2)
CANDIDATES = (GP3, IO2, ST1, GP2, STRIPE)


def problem(seed: int, items: int, candidates: int, *, special: bool = True) -> PlacementProblem:
    """Heavy-tailed sizes and rates, some moves, perhaps a WAL and tight limits."""
    random = np.random.default_rng(seed)
    chosen = tuple(CANDIDATES[i] for i in sorted(random.permutation(len(CANDIDATES))[:candidates]))
    scale = min(1.0, 20 / items)  # so that many fit on as few volumes as few do
    gib = 5 * min(1.0, 200 / items) * (random.pareto(1.2, items) + 0.1)
    rates = (
        60 * scale * (random.pareto(1.1, items) + 0.1)[:, None] * random.dirichlet((2, 1, 1), items)
    )
    demand = np.column_stack((np.minimum(gib, 3000), np.minimum(rates, 8000)))
    demand[random.random(items) < 0.2, 1:] = 0
    per_demand = use_per_demand(chosen)
    waits = (demand @ per_demand[:, WAIT].T).sum(axis=0)
    item_classes = ItemClasses(
        allowed=np.array([[True] * candidates, [not s.is_hdd for s in chosen]]),
        is_moved=np.array([[True] * candidates, [False] + [True] * (candidates - 1)]),
    )
    special_items = SpecialItems.none(candidates)
    if special:
        use = np.zeros((1, candidates, USES))
        use[0, :, GIB], use[0, :, IOPS], use[0, :, BYTES] = 3.0, 0.4, 8.0
        use[0, :, WAIT] = [s.write_us / 1000 for s in chosen]
        special_items = SpecialItems(
            use=use,
            allowed=np.array([[not s.is_hdd for s in chosen]]),
            is_moved=np.zeros((1, candidates), dtype=bool),
            exclusive=frozenset((0,)) if random.random() < 0.3 else frozenset(),
        )
    slack = random.uniform(1.0, 3.0)
    return PlacementProblem(
        candidates=chosen,
        use_per_demand=per_demand,
        items=Items(demand, random.integers(0, 2, items)),
        item_classes=item_classes,
        special_items=special_items,
        free_space=0.3,
        headroom=0.2,
        response_ms=float(waits.min() * slack) + 2.0 if random.random() < 0.7 else None,
        host_kiops=20.0 if random.random() < 0.3 else None,
        host_mibps=2000.0 if random.random() < 0.3 else None,
        max_volumes=int(random.integers(1, candidates + 1)),
    )


def use_per_demand(candidates: tuple[CandidateVolume, ...]) -> Floats:
    """Uses of a GiB, a random read, a write, a sequential read; one transaction a second."""
    per_demand = np.zeros((len(candidates), USES, RESOURCES))
    for c, one in enumerate(candidates):
        per_demand[c, GIB, 0] = 1
        per_demand[c, IOPS, 1:] = 1e-3
        per_demand[c, BYTES, 1:3] = one.random_io_bytes / MIB
        per_demand[c, BYTES, 3] = 1 / 8
        per_demand[c, WAIT, 1] = per_demand[c, WAIT, 3] = one.read_us / 1e6
    return per_demand


def loads(given: PlacementProblem, choice: Ints) -> Floats:
    """Candidates × USES of assignments (assignments × items and special items): their loads."""
    candidates = len(given.candidates)
    use = np.concatenate(
        (
            np.einsum("cuk,ik->icu", given.use_per_demand, given.items.demand),
            given.special_items.use,
        )
    )
    total = np.zeros((len(choice), candidates, USES))
    for unit in range(choice.shape[1]):
        for c in range(candidates):
            total[choice[:, unit] == c, c] += use[unit, c]
    return total


def cheapest(given: PlacementProblem, choice: Ints) -> Floats:
    """The price of each assignment by arithmetic; infinite where it keeps no limit.

    What a volume needs of throughput bounds its IOPS from below, and both its size; nothing is
    gained by more than that.
    """
    total = loads(given, choice)
    usd = np.zeros(len(choice))
    bought = np.zeros((len(choice), len(given.candidates)), dtype=bool)
    allowed = np.concatenate(
        (given.item_classes.allowed[given.items.item_class], given.special_items.allowed)
    )
    for unit in range(choice.shape[1]):
        usd += np.where(allowed[unit, choice[:, unit]], 0.0, np.inf)
        bought[np.arange(len(choice)), choice[:, unit]] = True
        if unit - given.items.count in given.special_items.exclusive:
            shared = (choice == choice[:, unit : unit + 1]).sum(axis=1) > 1
            usd[shared] = np.inf
    for c, one in enumerate(given.candidates):
        usd += np.where(bought[:, c], _volume_usd(given, one, total[:, c]), 0.0)
    usd[bought.sum(axis=1) > given.max_volumes] = np.inf
    return np.where(_keeps_shared(given, total), usd, np.inf)


def _keeps_shared(given: PlacementProblem, total: Floats) -> np.ndarray:  # type: ignore[type-arg]
    slack = 1 + 1e-9
    network = np.array([not s.is_ephemeral for s in given.candidates])
    keeps = np.ones(len(total), dtype=bool)
    for limit, use in ((given.host_kiops, IOPS), (given.host_mibps, BYTES)):
        if limit is not None:
            keeps &= total[:, network, use].sum(axis=1) <= (1 - given.headroom) * limit * slack
    if given.response_ms is not None:
        keeps &= total[:, :, WAIT].sum(axis=1) <= given.response_ms * slack
    return keeps


def _volume_usd(given: PlacementProblem, one: CandidateVolume, load: Floats) -> Floats:
    """By the provider's documents. An existing volume that keeps its size keeps what it holds."""
    iops = 1000 * load[:, IOPS] / (1 - given.headroom)
    mibps = load[:, BYTES] / (1 - given.headroom)
    gib = load[:, GIB] / (1 - given.free_space)
    if one.existing is None:
        return provider_documents.least_usd(one.type, one.stripes, gib, iops, mibps, is_new=True)
    held = one.stripes * one.existing.size_bytes / BYTES_OF_GIB
    grown = np.maximum(gib, held)
    usd = provider_documents.least_usd(one.type, one.stripes, grown, iops, mibps, is_new=False)
    if one.holds_gib is not None:
        as_it_is = np.full(len(gib), held)
        same = provider_documents.least_usd(
            one.type, one.stripes, as_it_is, iops, mibps, is_new=False
        )
        is_kept = (load[:, GIB] <= one.holds_gib * (1 + 1e-9)) & (one.holds_gib <= held)
        usd = np.where(is_kept, np.minimum(usd, same), usd)
    return usd


def every_choice(given: PlacementProblem) -> Ints:
    """All assignments of all units: assignments × units."""
    units = given.items.count + given.special_items.count
    candidates = len(given.candidates)
    numbers = np.arange(candidates**units)
    return np.stack([numbers // candidates**unit % candidates for unit in range(units)], axis=1)


def choice_of(placed: PlacementSolution) -> Ints:
    """An answer as one assignment."""
    return np.concatenate((placed.item_candidate, placed.special_candidate))[None]
