"""The combinations that predictions are held against: layouts × workloads, and how each is run.

What is shrunk is shrunk for two cores: members of wide stripes have a tenth of what is usual, so
that the volumes bind and not the processors.
"""

from dataclasses import dataclass, replace

from pgstow.model import (
    DataChoice,
    HostSpec,
    Layout,
    Placement,
    Schedule,
    ServerChoice,
    Treatment,
    Volume,
    WorkloadChoice,
)
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

CALIBRATION = "calibration"
_LARGE = "r6i.16xlarge"  # sustains 80,000 IOPS and 2,500 MB/s: it never binds
_SMALL = "r6i.large"  # 3,600 IOPS and 81.25 MB/s
_MEMORY = Bytes(512 * MIB)
# The server writes its blocks itself and early, as one that does not lack memory does: under a
# small memory limit the kernel would else stall whoever needs a page while dirty ones are written.
_WRITING = (
    ("bgwriter_delay", "20ms"),
    ("bgwriter_lru_maxpages", "1000"),
    ("bgwriter_lru_multiplier", "4"),
    ("backend_flush_after", "256kB"),
)
_SETTINGS = (
    *_WRITING,
    ("shared_buffers", "64MB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "1h"),
)
_CHECKPOINTS = (
    *_WRITING,
    # One begins every half minute and writes for most of it.
    ("shared_buffers", "160MB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30s"),
    ("checkpoint_completion_target", "0.9"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A workload with its data and server; ``filling_s`` it runs without limits to fill caches."""

    name: str
    workload: WorkloadChoice
    data: DataChoice
    settings: tuple[tuple[str, str], ...] = _SETTINGS
    memory: Bytes = _MEMORY
    filling_s: float = 9.0
    settle_s: float = 2.5
    duration_s: float = 12.0
    layouts: tuple[str, ...] = ()  # empty: all


_TABLES = DataChoice("pgbench", 170)
_INDEXED = DataChoice("pgbench", 60, (("extra_indexes", "5"),))

CASES = (
    Case("tpcb", WorkloadChoice("tpcb-like", 12), _TABLES),
    Case("read", WorkloadChoice("select-only", 16), _TABLES, duration_s=9.0, filling_s=12.0),
    Case("insert", WorkloadChoice("batch-insert", 8), _TABLES, duration_s=9.0, filling_s=4.0),
    Case("scan", WorkloadChoice("batch-read@1,simple-update@4", 12), _TABLES),
    Case("index", WorkloadChoice("update-indexed", 12), _INDEXED),
    Case(
        "checkpoint",
        WorkloadChoice("simple-update", 12),
        _TABLES,
        settings=_CHECKPOINTS,
        memory=Bytes(640 * MIB),
        settle_s=6.0,
        duration_s=57.0,
        layouts=(CALIBRATION, "gp3-4500", "one", "wal-apart", "io2"),
    ),
)


def _volume(name: str, kind: str, size_gib: float, **options: object) -> Volume:
    plain = Volume(name, kind, Bytes(round(size_gib * GIB)), f"/mnt/{name}")
    return replace(plain, **options)  # type: ignore[arg-type]


def _gp3(name: str, iops: float, mib_per_s: float, stripes: int = 1) -> Volume:
    rate = BytesPerSecond(mib_per_s * MIB)
    return _volume(name, "gp3", 100, iops=Iops(iops), throughput=rate, stripes=stripes)


def _layout(*volumes: Volume, instance: str = _LARGE) -> Layout:
    wal = "wal" if len(volumes) > 1 else "data"
    return Layout(HostSpec("ec2", "us-east-1", instance), volumes, Placement("data", wal))


LAYOUTS = {
    CALIBRATION: _layout(_gp3("data", 10_000, 500)),  # nothing of it binds
    "gp3-4500": _layout(_gp3("data", 4500, 250)),
    "one": _layout(_gp3("data", 3000, 125)),
    "wal-apart": _layout(_gp3("data", 3000, 125), _gp3("wal", 3000, 125)),
    "stripe-2": _layout(_gp3("data", 3000, 125, stripes=2)),
    "stripe-4": _layout(_volume("data", "io1", 10, iops=Iops(500), stripes=4)),
    "stripe-8": _layout(_volume("data", "io1", 10, iops=Iops(500), stripes=8)),
    "stripe-16": _layout(_volume("data", "io1", 10, iops=Iops(300), stripes=16)),
    # 900 IOPS, 3,000 while credits last: about a third of the time measured
    "gp2-ending": _layout(_volume("data", "gp2", 300, burst_credits=0.001)),
    "io2": _layout(_volume("data", "io2", 100, iops=Iops(16000))),
    "hdd": _layout(_volume("data", "st1", 2048, mkfs_options=("-l size=64m",))),
    "capped": _layout(_gp3("data", 3000, 125, stripes=4), instance=_SMALL),
}


# What differs most first: a recording that is broken off has something of everything.
_ORDER = (CALIBRATION, "one", "wal-apart", "io2", "gp2-ending", "capped", "stripe-4", "hdd")


def treatment(case: Case, name: str, layout: Layout) -> Treatment:
    """A case on a layout, as the experiments' targets take it; the layout's name is its level."""
    return Treatment(
        levels=(("workload", case.name), ("layout", name)),
        workload=case.workload,
        data=case.data,
        schedule=Schedule(case.duration_s, case.filling_s + case.settle_s, "cold"),
        server=ServerChoice(18, case.settings, case.memory),
        layout=layout,
    )


def combinations() -> tuple[tuple[Case, str], ...]:
    """All of them: all workloads' calibrations first."""
    return tuple(
        (case, layout)
        for layout in dict.fromkeys((*_ORDER, *LAYOUTS))
        for case in CASES
        if not case.layouts or layout in case.layouts
    )
