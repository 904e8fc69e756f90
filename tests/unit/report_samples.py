"""Documents for the page's tests: the content platform before and after, at its published sizes.

Sizes and read and write rates are those of Storage Selection for Database Workloads; speeds,
prices and times are made up to look like a real run.
"""

import math
import random
from dataclasses import replace

from pgstow import catalog, verification
from pgstow.model import (
    Acceptance,
    Activity,
    BackgroundWrites,
    Bound,
    Considered,
    Demand,
    DeviceTraffic,
    Goal,
    HostSpec,
    HostTraffic,
    LatencyMs,
    Layout,
    Measurement,
    Performance,
    Placement,
    Plan,
    Prediction,
    Profile,
    Provenance,
    Rate,
    Reason,
    Relation,
    RelationId,
    ServerState,
    Step,
    Tablespace,
    Volume,
    VolumeLoad,
    WalDemand,
    Warning,
)
from pgstow.report import ReportDocument, StepOutcome, VolumePrice
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

# name, kind, table, GiB, reads/s, writes/s
RELATIONS = (
    ("articles", "table", None, 12.0, 4200, 120),
    ("articles_pkey", "index", "articles", 1.2, 4200, 0),
    ("articles_cat_pub", "index", "articles", 0.8, 3100, 0),
    ("analytics_events", "table", None, 48.0, 20, 4200),
    ("analytics_events_ts", "index", "analytics_events", 6.0, 20, 4200),
    ("analytics_daily", "table", None, 2.0, 800, 24),
    ("subscriptions", "table", None, 0.05, 10, 2),
    ("old_articles", "table", None, 28.0, 3, 0),
    ("pg_toast_16404", "toast", "articles", 3.5, 300, 10),
)
HOT = ("articles", "articles_pkey", "articles_cat_pub", "analytics_daily")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "line\nbreak\u202eand ' quotes\x1b[31m",
    "a" * 63,
)
EMULATED = Provenance("measured on emulated volumes", "gp3 at its documented limits", "2026-11-20")
_HOST = HostSpec("ec2", "us-east-1", "r6i.2xlarge")
_BOUGHT = Iops(6000), BytesPerSecond(250 * MIB)


def relation_id(name: str) -> RelationId:
    """The id of one of the platform's relations."""
    return RelationId("content", "public", name)


def layout_before() -> Layout:
    """Everything on one gp3 volume."""
    data = Volume("data", "gp3", Bytes(150 * GIB), "/mnt/data")
    return Layout(_HOST, (data,), Placement("data", "data"))


def layout_after(names: tuple[str, ...] = HOT) -> Layout:
    """WAL apart, and what is read hot on a stripe."""
    volumes = (
        Volume("data", "gp3", Bytes(120 * GIB), "/mnt/data", *_BOUGHT),
        Volume("wal", "gp3", Bytes(10 * GIB), "/mnt/wal"),
        Volume("hot", "gp3", Bytes(16 * GIB), "/mnt/hot", stripes=2),
    )
    hot = Tablespace("hot", "hot", tuple(relation_id(name) for name in names))
    return Layout(_HOST, volumes, Placement("data", "wal", ("hot",)), (hot,))


def profile(seed: int = 1, commit_ms: float = 9.0, names: tuple[str, ...] = ()) -> Profile:
    """The platform observed for five minutes; ``names`` are of further, cold tables."""
    rng = random.Random(seed)
    rows = [*RELATIONS, *((name, "table", None, 1.5, 40, 3) for name in names)]
    relations = tuple(
        Relation(
            id=relation_id(name),
            kind=kind,  # type: ignore[arg-type]
            size_bytes=Bytes(round(gib * GIB)),
            table=relation_id(table) if table else None,
        )
        for name, kind, table, gib, _, _ in rows
    )
    demands = tuple(
        Demand(relation_id(name), Rate(reads), Rate(0.0), Rate(writes), Rate(writes), Rate(9 * 800))
        for name, _, _, _, reads, writes in rows
        if reads + writes
    )
    device = DeviceTraffic(
        "nvme1n1", "data", Rate(2100.0), Rate(880.0), Rate(18e6), Rate(14e6), 11.0, 12.0, Rate(40.0)
    )
    return Profile(
        started_at="2026-11-20T12:00:00+00:00",
        seconds=300.0,
        samples=61,
        server=ServerState(
            version_num=180004,
            version="18.4",
            system_identifier="1",
            data_directory="/mnt/data/pg",
            wal_directory="/mnt/data/pg/pg_wal",
            is_local=True,
            is_in_recovery=False,
            databases=("content",),
            tablespaces=(),
            relations=relations,
            settings=(("max_wal_size", "4GB"), ("shared_buffers", "8GB")),
        ),
        layout=layout_before(),
        demands=demands,
        wal=WalDemand(Rate(6e6), Rate(400.0), Rate(380.0), Rate(60.0), 2100.0, None),
        background=BackgroundWrites(Rate(800.0), Rate(0.0), Rate(0.0), Rate(0.0), 1, 0),
        activity=Activity(Rate(1312.0), Rate(400.0), Rate(31.0), Rate(32.0)),
        host=HostTraffic(8, Bytes(64 * GIB), Rate(0.9), (device,)),
        warnings=(
            Warning(
                "counter-reset",
                "statistics of database content were reset at 12:03:10; that interval is left out",
                "",
            ),
        ),
        commit_ms=tuple(commit_ms * math.exp(rng.gauss(0, 0.5)) for _ in range(600)),
        tps_samples=tps_samples(1312.0, seed),
    )


def tps_samples(mean: float, seed: int) -> tuple[float, ...]:
    """Sixty intervals' throughput."""
    rng = random.Random(seed)
    return tuple(mean * (1 + 0.06 * rng.gauss(0, 1)) for _ in range(60))


def _load(
    name: str, reads: float, writes: float, rate: float, limits: tuple[float, float], binding: str
) -> VolumeLoad:
    used = max((reads + writes) / limits[0], rate / limits[1])
    return VolumeLoad(name, reads, writes, rate, *limits, used, binding, 0.9, 1.2, None)  # type: ignore[arg-type]


def measured_before() -> Measurement:
    """The single volume under load."""
    load = _load("data", 2100, 880, 32e6, (3000, 125 * MIB), "iops")
    speed = Performance(
        1312.0, LatencyMs(24.1, 88.0), LatencyMs(9.8, 31.2), 8900.0, 12.0, EMULATED,
        LatencyMs(11.0, None),
    )  # fmt: skip
    return Measurement(layout_before(), speed, 300.0, tps_samples(1312.0, 3), (load,))


def measured_after() -> Measurement:
    """The new layout under the same load."""
    loads = (
        _load("data", 2100, 2600, 60e6, (6000, 250 * MIB), "none"),
        _load("wal", 0, 1700, 24e6, (3000, 125 * MIB), "latency"),
        _load("hot", 4900, 180, 44e6, (6000, 250 * MIB), "none"),
    )
    speed = Performance(
        5641.0, LatencyMs(5.6, 17.0), LatencyMs(1.9, 4.1), 1450.0, 32.96, EMULATED,
        LatencyMs(1.3, None),
    )  # fmt: skip
    return Measurement(layout_after(), speed, 300.0, tps_samples(5641.0, 4), loads)


def prediction() -> Prediction:
    """What was expected of the new layout."""
    speed = Performance(
        5210.0, LatencyMs(6.1, 21.0), LatencyMs(2.0, 5.4), 1500.0, 32.96,
        Provenance("predicted", "closed queueing network, simulated"), LatencyMs(1.4, 2.6),
    )  # fmt: skip
    loads = measured_after().volumes
    return Prediction(
        layout_after(), speed, (4580.0, 5840.0), loads, 0.42, 0.71, "volume wal: latency"
    )


def plan() -> Plan:
    """The plan of the new layout."""
    present = Prediction(
        layout_before(),
        replace(measured_before().performance, provenance=prediction().performance.provenance),
        (1150.0, 1480.0),
        measured_before().volumes,
        0.1,
        0.2,
        "volume data: iops",
    )
    reasons = (
        Reason("wal", "wal (gp3)", "asks 1,700 IOPS and 23 MiB/s of 4 GiB (425 IOPS per GiB)",
               "data (gp3 6,000 IOPS)", 8.4),
        Reason("content.public.articles", "hot (2 × gp3)",
               "asks 4,620 IOPS and 36 MiB/s of 15.5 GiB (298 IOPS per GiB)", "data", 11.2),
        Reason("content.public.analytics_events", "data (gp3)",
               "asks 4,220 IOPS and 33 MiB/s of 48 GiB (88 per GiB)", "none: too slow", None),
        Reason("content.public.analytics_daily", "hot (2 × gp3)",
               "asks 824 IOPS and 6.4 MiB/s of 2 GiB (412 IOPS per GiB)", "data", 0.0),
    )  # fmt: skip
    goal = Goal(commit_p99_ms=5.0, tps=5200.0)
    considered = Considered(("gp3", "io2"), 6, 8)
    bound = Bound("price", 32.90, considered, Acceptance(2500.0, 0.02, 0.2, 0.3), is_proven=True)
    return Plan(goal, layout_after(), prediction(), present, reasons, bound=bound)


def steps() -> tuple[StepOutcome, ...]:
    """The steps that were taken."""
    hot = relation_id("articles_pkey")
    listed = (
        Step("create tablespace", "hot", "CREATE TABLESPACE hot LOCATION '/mnt/hot/hot'",
             "DROP TABLESPACE hot", "none", 0, 0, 0.1),
        Step("move index", str(hot),
             "REINDEX (TABLESPACE hot) INDEX CONCURRENTLY public.articles_pkey",
             "REINDEX (TABLESPACE pg_default) INDEX CONCURRENTLY public.articles_pkey",
             "SHARE UPDATE EXCLUSIVE on content.public.articles", round(1.2 * GIB),
             round(1.2 * GIB), 31.0, "content", hot),
        Step("move table", "content.public.articles",
             "ALTER TABLE public.articles SET TABLESPACE hot",
             "ALTER TABLE public.articles SET TABLESPACE pg_default",
             "ACCESS EXCLUSIVE on content.public.articles", round(15.5 * GIB), round(15.5 * GIB),
             140.0, "content", relation_id("articles")),
        Step("move wal", "pg_wal", "stop, move pg_wal to /mnt/wal/pg_wal, link, start",
             "stop, move pg_wal back, start", "server restart", round(4 * GIB), 0, 20.0),
    )  # fmt: skip
    took = (0.04, 28.7, 151.0, 17.3)
    return tuple(StepOutcome(s, "done", t) for s, t in zip(listed, took, strict=True))


def prices(layout: Layout) -> tuple[VolumePrice, ...]:
    """What the volumes of a layout cost by the catalog."""
    rules = catalog.load()
    return tuple(
        VolumePrice(
            volume.name,
            rules.price(volume, layout.host),
            rules.volume_type(volume.type).prices["us-east-1"].provenance,
        )
        for volume in layout.volumes
    )


def document(names: tuple[str, ...] = ()) -> ReportDocument:
    """Everything that a page can show."""
    before, after = measured_before(), measured_after()
    one, other = (verification.mean_interval(m.tps_samples) for m in (before, after))
    assert one is not None and other is not None
    return ReportDocument(
        title="Storage of content, before and after",
        generated_at="2026-11-20 13:10 UTC",
        server_version="18.4",
        machine="ec2 r6i.2xlarge, us-east-1",
        profile=profile(names=names),
        profile_after=profile(2, 1.8),
        before=before,
        after=after,
        predicted=prediction(),
        plan=plan(),
        steps=steps(),
        comparisons=verification.compare(
            prediction().performance,
            after.performance,
            tps_interval=prediction().tps_interval,
        ),
        effect=verification.effect(before.tps_samples, after.tps_samples),
        tps_interval_before=(one.low, one.high),
        tps_interval_after=(other.low, other.high),
        prices_before=prices(before.layout),
        prices_after=prices(after.layout),
        warnings=(Warning("no-snapshot", "no snapshot of the volumes is known", "take one"),),
        commands=(
            "pgstow observe --duration 5min --commit-probe 2",
            "pgstow plan --tps 5200 --commit-p99 5ms --out planned.toml",
            "pgstow diff planned.toml",
            "pgstow apply planned.toml",
            "pgstow verify --duration 5min --commit-probe 2",
            "pgstow report",
        ),
    )
