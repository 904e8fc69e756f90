"""Samples of an imagined server, for tests of what observe makes of them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pgstow.host.devices import DeviceCounters, HostSample
from pgstow.model import (
    Layout,
    Placement,
    Relation,
    RelationId,
    ServerState,
    TablespaceState,
    Volume,
)
from pgstow.model.storage import HostSpec
from pgstow.observe import Machine, Observation, Sample
from pgstow.postgres.counters import (
    DatabaseCounters,
    RelationCounters,
    RelationKey,
    ServerSample,
    WalCounters,
    WriteCounters,
)
from pgstow.postgres.state import Inspection
from pgstow.units import GIB, Bytes

STARTED = datetime(2026, 11, 1, tzinfo=UTC)
TABLE: RelationKey = ("shop", 20000)
INDEX: RelationKey = ("shop", 20001)
ORDERS = RelationId("shop", "public", "orders")
ORDERS_KEY = RelationId("shop", "public", "orders_pkey")

STATE = ServerState(
    version_num=180004,
    version="18.4",
    system_identifier="1",
    data_directory="/mnt/data/pg",
    wal_directory="/mnt/wal/pg_wal",
    is_local=True,
    is_in_recovery=False,
    databases=("shop",),
    tablespaces=(TablespaceState("cold", "/mnt/bulk/cold", (("random_page_cost", "4.0"),)),),
    relations=(
        Relation(ORDERS, "table", Bytes(1000 * 8192)),
        Relation(ORDERS_KEY, "index", Bytes(200 * 8192), tablespace="cold", table=ORDERS),
    ),
    settings=(("block_size", "8192"), ("temp_tablespaces", "")),
)
INSPECTION = Inspection(
    STATE, dict(zip((TABLE, INDEX), STATE.relations, strict=True)), indexed={INDEX: TABLE}
)
LAYOUT = Layout(
    HostSpec(),
    (Volume("data", "local-ssd", Bytes(100 * GIB), "/mnt/data"),),
    Placement("data", "data"),
)
IDLE = RelationCounters(0, 0, 0, 0, 0, 0, 0, 0, 1000, 50000)


def server_sample(at_s: float, **changes: object) -> ServerSample:
    """A server whose counters are all zero but for the changes."""
    sample = ServerSample(
        at_s=at_s,
        started_at=STARTED,
        next_transaction_id=1000,
        client_backends=4,
        busy_backends=2,
        databases={"shop": DatabaseCounters(0, 0.0, 0)},
        wal=WalCounters(0.0, 0, 0, 0, 0.0, 0.0),
        writes=WriteCounters(0, 0, 0, 0, 0),
        relations={},
        resets={"wal": STARTED},
    )
    return replace(sample, **changes)  # type: ignore[arg-type]


def host_sample(at_s: float, busy_core_s: float = 0.0, **counters: int) -> HostSample:
    """A machine with one disk, vdb."""
    zero = DeviceCounters(0, 0, 0, 0, 0, 0, 0, 0)
    return HostSample(at_s, busy_core_s, {"vdb": replace(zero, **counters)})


def observation(
    samples: Sequence[ServerSample], hosts: Sequence[HostSample] | None = None
) -> Observation:
    """What was seen, with the host where it was."""
    pairs = zip(samples, hosts or [None] * len(samples), strict=True)
    return Observation(
        started_at="2026-11-20T12:00:00+00:00",
        inspection=INSPECTION,
        layout=LAYOUT,
        samples=tuple(Sample(server, host) for server, host in pairs),
        machine=Machine(2, 8 * GIB, {"vdb": "data"}) if hosts else None,
    )
