"""A profile of the content platform on one gp3 volume, as the tests' common example.

Sizes and rates follow the table of Storage Selection for Database Workloads, at 1:16 in size.
"""

from dataclasses import replace

from pgstow.model import (
    Activity,
    BackgroundWrites,
    Demand,
    DeviceTraffic,
    HostSpec,
    HostTraffic,
    Layout,
    Placement,
    Profile,
    Rate,
    Relation,
    RelationId,
    ServerState,
    Volume,
    WalDemand,
)
from pgstow.units import GIB, Bytes

TPS = 700.0
# name, kind, MiB, reads per transaction, writes per transaction
RELATIONS = (
    ("articles", "table", 768, 2.4, 0.10),
    ("articles_pkey", "index", 77, 0.5, 0.0),
    ("articles_cat_pub", "index", 51, 0.4, 0.0),
    ("analytics_events", "table", 3072, 0.02, 0.12),
    ("analytics_events_ts", "index", 384, 0.02, 0.06),
    ("analytics_daily", "table", 128, 0.2, 0.03),
    ("subscriptions", "table", 3, 0.0, 0.0),
    ("old_articles", "table", 1792, 0.01, 0.0),
)


def relation_id(name: str) -> RelationId:
    """The id of one of the platform's relations."""
    return RelationId("content", "public", name)


def present_layout() -> Layout:
    """Everything on one gp3 volume at its defaults."""
    return Layout(
        host=HostSpec("ec2", "us-east-1", "r6i.4xlarge"),
        volumes=(Volume("data", "gp3", Bytes(20 * GIB), "/mnt/data"),),
        postgres=Placement(data="data", wal="data"),
    )


def profile(tps: float = TPS, clients: int = 64) -> Profile:
    """The platform under load, I/O-bound: reads and writes fill 3,000 IOPS at 700 TPS."""
    owner = {"articles_pkey": "articles", "articles_cat_pub": "articles"}
    relations = tuple(
        Relation(
            id=relation_id(name),
            kind=kind,  # type: ignore[arg-type]
            size_bytes=Bytes(mib * 1024 * 1024),
            table=relation_id(owner[name]) if name in owner else None,
        )
        for name, kind, mib, _, _ in RELATIONS
    )
    demands = tuple(
        Demand(
            relation=relation_id(name),
            random_reads=Rate(reads * tps),
            sequential_read_bytes=Rate(0.0),
            block_writes=Rate(writes * tps),
            tuple_writes=Rate(writes * tps),
            buffer_hits=Rate(10 * tps),
        )
        for name, _, _, reads, writes in RELATIONS
    )
    reads = sum(row[3] for row in RELATIONS) * tps
    writes = sum(row[4] for row in RELATIONS) * tps
    device = DeviceTraffic(
        device="loop0",
        volume="data",
        reads=Rate(reads),
        writes=Rate(writes + 80),
        read_bytes=Rate(reads * 8192),
        write_bytes=Rate(writes * 8192 + 80 * 16384),
        read_ms=20.0,
        write_ms=21.0,
        queue=Rate(60.0),
    )
    return Profile(
        started_at="2026-11-20T12:00:00Z",
        seconds=60.0,
        samples=13,
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
            settings=(("max_wal_size", "1GB"), ("wal_keep_size", "0")),
        ),
        layout=present_layout(),
        demands=demands,
        wal=WalDemand(Rate(300 * 900.0), Rate(80.0), Rate(80.0), Rate(10.0), 22000.0, None),
        background=BackgroundWrites(Rate(writes), Rate(0.0), Rate(0.0), Rate(0.0), 0, 0),
        activity=Activity(
            transactions=Rate(tps),
            write_transactions=Rate(tps / 3),
            active_sessions=Rate(clients * 0.98),
            client_backends=Rate(float(clients)),
        ),
        host=HostTraffic(2, Bytes(24 * GIB), Rate(0.35), (device,)),
    )


def with_names(names: dict[str, str]) -> Profile:
    """The same profile with some relations named otherwise."""
    base = profile()

    def renamed(one: RelationId) -> RelationId:
        return replace(one, name=names.get(one.name, one.name))

    return replace(
        base,
        server=replace(
            base.server,
            relations=tuple(replace(r, id=renamed(r.id)) for r in base.server.relations),
        ),
        demands=tuple(replace(d, relation=renamed(d.relation)) for d in base.demands),
    )
