"""Placement problems from seeds, and an independent check of their answers."""

import numpy as np

from pgstow.planning.placement import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    Items,
    Kinds,
    Placed,
    PlacementProblem,
    Singles,
)
from pgstow.planning.placement.problem import Floats, Ints
from pgstow.planning.shapes import Shape
from pgstow.units import MIB

RESOURCES = 4  # GiB, random reads/s, writes/s, sequential reads of 128 KiB/s


def shape(key: str, **different: object) -> Shape:
    """A shape like gp3, but for what is said."""
    values: dict[str, object] = {
        "key": key,
        "type": "gp3",
        "stripes": 1,
        "min_gib": 1.0,
        "max_gib": 16384.0,
        "included_iops": 3000.0,
        "paid_iops_from": 3000.0,
        "max_iops": 16_000.0,
        "iops_per_gib": 500.0,
        "is_iops_provisioned": True,
        "included_bytes_per_s": 125.0 * MIB,
        "max_bytes_per_s": 1000.0 * MIB,
        "bytes_per_s_per_gib": None,
        "bytes_per_s_per_iops": 0.25 * MIB,
        "is_throughput_provisioned": True,
        "usd_per_gib": 0.08,
        "usd_per_iops": 0.005,
        "usd_per_mibps": 0.04,
        "read_us": 1000.0,
        "write_us": 1800.0,
        "read_us_p99": 1500.0,
        "write_us_p99": 2700.0,
    }
    return Shape(**(values | different))  # type: ignore[arg-type]


GP3 = shape("gp3")
GP2 = shape(
    "gp2",
    type="gp2",
    min_gib=34.0,
    usd_per_gib=0.10,
    included_iops=0.0,
    iops_per_gib=3.0,
    is_iops_provisioned=False,
    is_throughput_provisioned=False,
    max_bytes_per_s=128.0 * MIB,
    included_bytes_per_s=128.0 * MIB,
    bytes_per_s_per_iops=None,
)
IO2 = shape(
    "io2",
    type="io2",
    min_gib=4.0,
    usd_per_gib=0.125,
    usd_per_iops=0.065,
    included_iops=100.0,
    paid_iops_from=0.0,
    max_iops=32_000.0,
    is_throughput_provisioned=False,
    included_bytes_per_s=0.0,
    read_us=250.0,
    write_us=300.0,
)
ST1 = shape(
    "st1",
    type="st1",
    min_gib=125.0,
    usd_per_gib=0.045,
    included_iops=500.0,
    max_iops=500.0,
    iops_per_gib=None,
    is_iops_provisioned=False,
    is_throughput_provisioned=False,
    bytes_per_s_per_iops=None,
    bytes_per_s_per_gib=40.0 * MIB / 1024,
    max_bytes_per_s=500.0 * MIB,
    read_us=9000.0,
    write_us=9000.0,
    random_io_bytes=1024 * 1024,
    is_hdd=True,
)
STRIPE = shape(
    "gp3x2",
    stripes=2,
    min_gib=2.0,
    max_gib=32768.0,
    included_iops=6000.0,
    paid_iops_from=6000.0,
    max_iops=32_000.0,
    included_bytes_per_s=250.0 * MIB,
    max_bytes_per_s=2000.0 * MIB,
)
SHAPES = (GP3, IO2, ST1, GP2, STRIPE)


def problem(seed: int, items: int, shapes: int, *, single: bool = True) -> PlacementProblem:
    """Heavy-tailed sizes and rates, some moves, a single like the WAL, perhaps tight limits."""
    random = np.random.default_rng(seed)
    chosen = tuple(SHAPES[i] for i in sorted(random.permutation(len(SHAPES))[:shapes]))
    scale = min(1.0, 20 / items)  # so that many fit on as few volumes as few do
    gib = 5 * min(1.0, 200 / items) * (random.pareto(1.2, items) + 0.1)
    rates = (
        60 * scale * (random.pareto(1.1, items) + 0.1)[:, None] * random.dirichlet((2, 1, 1), items)
    )
    demand = np.column_stack((np.minimum(gib, 3000), np.minimum(rates, 8000)))
    demand[random.random(items) < 0.2, 1:] = 0
    per_demand = use_per_demand(chosen)
    waits = (demand @ per_demand[:, WAIT].T).sum(axis=0)
    kinds = Kinds(
        allowed=np.array([[True] * shapes, [not s.is_hdd for s in chosen]]),
        move_usd_per_gib=np.array([[0.0002] * shapes, [0.0] + [0.0002] * (shapes - 1)]),
    )
    singles = Singles.none(shapes)
    if single:
        use = np.zeros((1, shapes, USES))
        use[0, :, GIB], use[0, :, IOPS], use[0, :, BYTES] = 3.0, 0.4, 8.0
        use[0, :, WAIT] = [s.write_us / 1000 for s in chosen]
        singles = Singles(
            use=use,
            allowed=np.array([[not s.is_hdd for s in chosen]]),
            move_usd=np.zeros((1, shapes)),
            alone=frozenset((0,)) if random.random() < 0.3 else frozenset(),
        )
    slack = random.uniform(1.0, 3.0)
    return PlacementProblem(
        shapes=chosen,
        use_per_demand=per_demand,
        items=Items(demand, random.integers(0, 2, items)),
        kinds=kinds,
        singles=singles,
        free_space=0.3,
        headroom=0.2,
        response_ms=float(waits.min() * slack) + 2.0 if random.random() < 0.7 else None,
        host_kiops=20.0 if random.random() < 0.3 else None,
        host_mibps=2000.0 if random.random() < 0.3 else None,
        max_volumes=int(random.integers(1, shapes + 1)),
    )


def use_per_demand(shapes: tuple[Shape, ...]) -> Floats:
    """Uses of a GiB, a random read, a write, a sequential read; one transaction a second."""
    per_demand = np.zeros((len(shapes), USES, RESOURCES))
    for c, one in enumerate(shapes):
        per_demand[c, GIB, 0] = 1
        per_demand[c, IOPS, 1:] = 1e-3
        per_demand[c, BYTES, 1:3] = one.random_io_bytes / MIB
        per_demand[c, BYTES, 3] = 1 / 8
        per_demand[c, WAIT, 1] = per_demand[c, WAIT, 3] = one.read_us / 1e6
    return per_demand


def loads(given: PlacementProblem, choice: Ints) -> Floats:
    """Shapes × USES of assignments (assignments × items and singles): their loads."""
    shapes = len(given.shapes)
    use = np.concatenate(
        (
            np.einsum("cuk,ik->icu", given.use_per_demand, given.items.demand),
            given.singles.use,
        )
    )
    total = np.zeros((len(choice), shapes, USES))
    for unit in range(choice.shape[1]):
        for c in range(shapes):
            total[choice[:, unit] == c, c] += use[unit, c]
    return total


def cheapest(given: PlacementProblem, choice: Ints) -> Floats:
    """The price of each assignment by arithmetic; infinite where it keeps no limit.

    What a volume needs of throughput bounds its IOPS from below, and both its size; nothing is
    gained by more than that.
    """
    total = loads(given, choice)
    usd = np.zeros(len(choice))
    bought = np.zeros((len(choice), len(given.shapes)), dtype=bool)
    allowed = np.concatenate((given.kinds.allowed[given.items.kind], given.singles.allowed))
    moves = np.concatenate(
        (
            given.kinds.move_usd_per_gib[given.items.kind] * given.items.demand[:, :1],
            given.singles.move_usd,
        )
    )
    for unit in range(choice.shape[1]):
        usd += np.where(allowed[unit, choice[:, unit]], moves[unit, choice[:, unit]], np.inf)
        bought[np.arange(len(choice)), choice[:, unit]] = True
        if unit - given.items.count in given.singles.alone:
            shared = (choice == choice[:, unit : unit + 1]).sum(axis=1) > 1
            usd[shared] = np.inf
    for c, one in enumerate(given.shapes):
        usd += np.where(bought[:, c], _volume_usd(given, one, total[:, c]), 0.0)
    usd[bought.sum(axis=1) > given.max_volumes] = np.inf
    return np.where(_keeps_shared(given, total), usd, np.inf)


def _keeps_shared(given: PlacementProblem, total: Floats) -> np.ndarray:  # type: ignore[type-arg]
    slack = 1 + 1e-9
    network = np.array([not s.is_ephemeral for s in given.shapes])
    keeps = np.ones(len(total), dtype=bool)
    for limit, use in ((given.host_kiops, IOPS), (given.host_mibps, BYTES)):
        if limit is not None:
            keeps &= total[:, network, use].sum(axis=1) <= (1 - given.headroom) * limit * slack
    if given.response_ms is not None:
        keeps &= total[:, :, WAIT].sum(axis=1) <= given.response_ms * slack
    return keeps


def _volume_usd(given: PlacementProblem, one: Shape, load: Floats) -> Floats:
    mibps = load[:, BYTES] / (1 - given.headroom)
    kiops = load[:, IOPS] / (1 - given.headroom)
    gib = np.maximum(load[:, GIB] / (1 - given.free_space), one.min_gib)
    if one.is_throughput_provisioned:
        mibps = np.maximum(mibps, one.included_bytes_per_s / MIB)
    if one.bytes_per_s_per_iops is not None:
        kiops = np.maximum(kiops, mibps / (one.bytes_per_s_per_iops * 1000 / MIB))
    if one.is_iops_provisioned:
        kiops = np.maximum(kiops, one.included_iops / 1000)
    if one.iops_per_gib is not None:
        free = one.included_iops / 1000 if one.is_iops_provisioned else 0.0
        gib = np.maximum(gib, (kiops - free) / (one.iops_per_gib / 1000))
    if one.bytes_per_s_per_gib is not None:
        gib = np.maximum(gib, mibps / (one.bytes_per_s_per_gib / MIB))
    gib = np.ceil(gib / one.stripes - 1e-9) * one.stripes
    usd = one.usd_per_gib * gib + given.new_volume_usd
    if one.is_iops_provisioned:
        usd = usd + one.usd_per_iops * (1000 * kiops - one.paid_iops_from)
    if one.is_throughput_provisioned:
        usd = usd + one.usd_per_mibps * (mibps - one.included_bytes_per_s / MIB)
    slack = 1 + 1e-9
    fits = (gib <= one.max_gib) & (kiops <= one.max_iops / 1000 * slack)
    fits &= mibps <= one.max_bytes_per_s / MIB * slack
    return np.where(fits, usd, np.inf)


def every_choice(given: PlacementProblem) -> Ints:
    """All assignments of all units: assignments × units."""
    units = given.items.count + given.singles.count
    shapes = len(given.shapes)
    numbers = np.arange(shapes**units)
    return np.stack([numbers // shapes**unit % shapes for unit in range(units)], axis=1)


def choice_of(placed: Placed) -> Ints:
    """An answer as one assignment."""
    return np.concatenate((placed.item_shape, placed.single_shape))[None]
