"""A profile of many relations, made from a seed: what the benchmarks of planning run on."""

import numpy as np

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
from pgstow.units import GIB, Bytes, Iops

TPS = 800.0
READS, WRITES, SCANS = 3.0, 0.6, 0.2  # of one transaction, scans of 128 KiB


def profile(relations: int, seed: int) -> Profile:
    """Pareto-distributed sizes and accesses (shape 1.5) on one gp3 volume of 6,000 IOPS."""
    random = np.random.default_rng(seed)
    size = random.pareto(1.5, relations) + 1
    size *= 400 * (relations / 1000) ** 0.6 / size.sum()
    access = (random.pareto(1.5, relations) + 1) * (random.random(relations) < 0.7)
    access /= access.sum()
    ids = [RelationId("shop", "public", f"r{number:07}") for number in range(relations)]
    demands = tuple(
        Demand(
            relation=one,
            random_reads=Rate(float(share * READS * TPS)),
            sequential_read_bytes=Rate(float(share * SCANS * TPS * 131072)),
            block_writes=Rate(float(share * WRITES * TPS)),
            tuple_writes=Rate(float(share * WRITES * TPS)),
            buffer_hits=Rate(float(share * 20 * TPS)),
        )
        for one, share in zip(ids, access.tolist(), strict=True)
        if share > 0
    )
    return _profile(
        tuple(
            Relation(one, "table", Bytes(int(gib * GIB)))
            for one, gib in zip(ids, size.tolist(), strict=True)
        ),
        demands,
        volume_gib=int(size.sum() * 1.5) + 20,
    )


def _profile(
    relations: tuple[Relation, ...], demands: tuple[Demand, ...], volume_gib: int
) -> Profile:
    """The server and host around them."""
    writes = WRITES * TPS
    volume = Volume("data", "gp3", Bytes(volume_gib * GIB), "/mnt/data", iops=Iops(6000))
    return Profile(
        started_at="2026-11-20T12:00:00Z",
        seconds=3600.0,
        samples=60,
        server=_server(relations),
        layout=Layout(
            host=HostSpec("ec2", "us-east-1", "r6i.4xlarge"),
            volumes=(volume,),
            postgres=Placement(data="data", wal="data"),
        ),
        demands=demands,
        wal=WalDemand(Rate(250 * 1200.0), Rate(250.0), Rate(250.0), Rate(10.0), 1900.0, None),
        background=BackgroundWrites(Rate(writes), Rate(0.0), Rate(0.0), Rate(0.0), 12, 0),
        activity=Activity(
            transactions=Rate(TPS),
            write_transactions=Rate(TPS / 3),
            active_sessions=Rate(12.0),
            client_backends=Rate(64.0),
        ),
        host=HostTraffic(16, Bytes(128 * GIB), Rate(3.0), (_device(),)),
    )


def _server(relations: tuple[Relation, ...]) -> ServerState:
    return ServerState(
        version_num=180004,
        version="18.4",
        system_identifier="1",
        data_directory="/mnt/data/pg",
        wal_directory="/mnt/data/pg/pg_wal",
        is_local=True,
        is_in_recovery=False,
        databases=("shop",),
        tablespaces=(),
        relations=relations,
        settings=(("max_wal_size", "4GB"), ("wal_keep_size", "0")),
    )


def _device() -> DeviceTraffic:
    writes = WRITES * TPS
    return DeviceTraffic(
        device="nvme1n1",
        volume="data",
        reads=Rate((READS + SCANS) * TPS),
        writes=Rate(writes + 250),
        read_bytes=Rate(READS * TPS * 8192 + SCANS * TPS * 131072),
        write_bytes=Rate(writes * 8192 + 250 * 16384),
        read_ms=1.2,
        write_ms=2.0,
        queue=Rate(6.0),
    )
