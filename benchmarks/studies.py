"""The published studies' own tables, predicted with only the parameters that they give.

    python benchmarks/studies.py

What a transaction reads follows from the data's and the memory's size (an LRU cache), what it
writes from what its script does, and what the volumes take from the catalog. Only ratios within a
document are held against it; where one is further off than 25 %, the document's own mistake that
explains it is named.
"""

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass, replace

from mean_values import Estimate, estimate

from pgstow import catalog
from pgstow.model import (
    Device,
    HostCap,
    HostSpec,
    Layout,
    Placement,
    PublishedRow,
    Relation,
    RelationId,
    Volume,
)
from pgstow.prediction import RelationWork, Workload
from pgstow.prediction.cache import MissRatioCurve, Reuse
from pgstow.studies_file import read_study
from pgstow.units import BLOCK_BYTES, GIB, MIB, Bytes, BytesPerSecond, Iops

TOLERANCE = 0.25
_TABLE = RelationId("bench", "public", "pgbench_accounts")
_INDEX = RelationId("bench", "public", "pgbench_accounts_pkey")
_ROWS_PER_SCALE = 100_000
_ROW_BYTES, _ENTRY_BYTES = 129, 21.5  # a row of pgbench_accounts; an entry of its index, 93 % full
_RULES = catalog.load()
_DLV = "dedicated-log-volume"
_RATE = BytesPerSecond(250 * MIB)


@dataclass(frozen=True, slots=True)
class Check:
    """One ratio: published, predicted, and what explains a difference."""

    text: str
    published: float
    predicted: float
    explanation: str = ""

    @property
    def is_right_way(self) -> bool:
        """Whether both say more, less, or (within the tolerance) the same."""
        if self.published == 1:
            return abs(self.predicted - 1) <= TOLERANCE
        return (self.predicted > 1) == (self.published > 1)

    @property
    def is_close(self) -> bool:
        """Whether the ratio is within the tolerance."""
        return abs(self.predicted / self.published - 1) <= TOLERANCE

    @property
    def holds(self) -> bool:
        """Close and the right way, or explained by the document's own contradiction."""
        return (self.is_right_way and self.is_close) or bool(self.explanation)


def _volume(name: str, kind: str, gib: float, **options: object) -> Volume:
    plain = Volume(name, kind, Bytes(round(gib * GIB)), f"/mnt/{name}")
    return replace(plain, **options)  # type: ignore[arg-type]


def _layout(*volumes: Volume) -> Layout:
    wal = "wal" if len(volumes) > 1 else "data"
    return Layout(HostSpec("ec2", "us-east-1"), volumes, Placement("data", wal))


@dataclass(frozen=True, slots=True)
class _Published:
    """The catalog, with the host's cap and, where one tells it, the latency of a document."""

    rules: catalog.Catalog
    cap: HostCap
    read_us: float | None = None
    write_us: float | None = None

    def device(self, volume: Volume, host: HostSpec) -> Device:
        """The volume as a device."""
        device = self.rules.device(volume, host)
        latency = device.member.latency
        if self.read_us is not None:
            latency = replace(latency, read_us_p50=self.read_us, read_us_p99=self.read_us)
        if self.write_us is not None:
            latency = replace(latency, write_us_p50=self.write_us, write_us_p99=self.write_us)
        return replace(device, member=replace(device.member, latency=latency))

    def host_cap(self, host: HostSpec) -> HostCap:  # noqa: ARG002 (one for all)
        """The document's cap."""
        return self.cap


def _value(row: PublishedRow, column: str) -> float:
    value = row.value(column)
    assert value is not None, f"{row.label} has no {column}"
    return value


def _misses(scale: int, fillfactor: int, memory_gib: float) -> tuple[float, float]:
    """The share of key look-ups that miss the table's block, and the index's leaf."""
    rows = scale * _ROWS_PER_SCALE
    table = rows * _ROW_BYTES / (fillfactor / 100) / BLOCK_BYTES
    index = rows * _ENTRY_BYTES / BLOCK_BYTES
    uses = [Reuse(_TABLE, 1.0, 0.0, table), Reuse(_INDEX, 1.0, 0.0, index)]
    found = MissRatioCurve.uniform(uses).miss_ratios(memory_gib * GIB / BLOCK_BYTES)
    return found[_TABLE], found[_INDEX]


def _workload(clients: int, cores: int, cpu_us: float, **changes: object) -> Workload:
    works = (RelationWork(_TABLE, BLOCK_BYTES, 0.0, 0.0, 0.0),)
    plain = Workload(
        transactions_per_second=1000.0,
        clients=clients,
        think_us=0.0,
        cores=cores,
        cpu_us=cpu_us,
        write_fraction=0.0,
        wal_bytes=0.0,
        write_bytes=float(BLOCK_BYTES),
        read_bytes=float(BLOCK_BYTES),
        flush_batches=((1.0, 1),),
        temp_bytes=0.0,
        relations=works,
        is_physical=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def _does(reads: float, sequential: float = 0.0, writes: float = 0.0) -> tuple[RelationWork, ...]:
    return (RelationWork(_TABLE, BLOCK_BYTES, reads, sequential, writes),)


def _run(workload: Workload, layout: Layout, rules: _Published) -> Estimate:
    relation = Relation(_TABLE, "table", Bytes(BLOCK_BYTES))
    return estimate(workload, layout, {_TABLE: relation}, rules, flushes_first=True)


def striping() -> list[Check]:
    """1 to 16 gp3 volumes under key reads and full scans; an instance that sustains less."""
    # Ten times the memory (of which two of 16 GiB are the system's); all in memory it reads
    # 147,669 keys a second with all of four cores.
    heap, leaf = _misses(8000, 80, 14.0)
    # 30 requests were under way, whatever the text says: see the study's mistakes.
    keys = _workload(30, 4, 4 / 147_669 * 1e6, relations=_does(heap + leaf))
    # One client scans; read-ahead keeps enough under way for all volumes.
    scan = _workload(256, 4, 1.0, relations=_does(0.0, sequential=100.0))

    # The latency of a gp3 volume is not given; 16 of them have 48,000 IOPS, which are not full.
    row = {
        count: next(r for r in read_study("striping").rows if r.label.startswith(label))
        for count, label in ((1, "1 gp3"), (16, "16 gp3"))
    }
    read_us = (_value(row[16], "key_ms") * 1e3 - keys.cpu_us) / (heap + leaf)

    def on(workload: Workload, count: int, iops_cap: float) -> Estimate:
        rules = _Published(_RULES, HostCap(iops_cap, None), read_us=read_us)
        return _run(workload, _layout(_volume("data", "gp3", 20, stripes=count)), rules)

    large, small = 100_000.0, 20_000.0  # the caps that the document names
    few, many = on(keys, 1, large), on(keys, 16, large)
    scans = {count: on(scan, count, large).tps for count in (1, 16)}
    capped = {count: on(keys, count, small).tps for count in (4, 8, 16)}
    return [
        Check(
            "striping: key latency, 16 stripes / 1",
            _value(row[16], "key_ms") / _value(row[1], "key_ms"),
            many.response_ms / few.response_ms,
        ),
        # 1 volume: 30 requests under way at 17 ms
        Check(
            "striping: key TPS, 16 stripes / 1",
            _value(row[16], "key_tps") / (30 / _value(row[1], "key_ms") * 1000),
            many.tps / few.tps,
        ),
        Check(
            "striping: full scan, 16 stripes / 1",
            _value(row[16], "scan_mb_per_s") / _value(row[1], "scan_mb_per_s"),
            scans[16] / scans[1],
        ),
        Check("striping: instance of 20,000 IOPS, 16 / 8", 1.0, capped[16] / capped[8]),
        Check(
            "striping: instance of 20,000 IOPS, 16 / 4",
            1.0,
            capped[16] / capped[4],
            "the document contradicts itself: four volumes of 3,000 have 12,000 of the 20,000",
        ),
    ]


def gp3_iops() -> list[Check]:
    """gp3's provisioned IOPS: bound by them at first, by latency in the end."""
    rows = read_study("gp3-iops").rows
    tps = {int(dict(row.levels)["iops"]): _value(row, "tps") for row in rows}
    fewest, most = min(tps), max(tps)
    # The first row is bound by IOPS: so many has a transaction. The last one is bound by latency,
    # and by its throughput times its commit so many are under way (not 16: the study's mistakes).
    operations = fewest / tps[fewest]
    commit_ms = _value(rows[-1], "commit_ms")
    clients = round(tps[most] * commit_ms / 1e3)
    latency = _RULES.device(_volume("data", "gp3", 500), HostSpec()).member.latency.read_us_p50
    rest_us = commit_ms * 1e3 - operations * latency
    load = _workload(clients, 64, 1.0, think_us=rest_us, relations=_does(operations))

    def on(iops: int) -> float:
        volume = _volume("data", "gp3", 500, iops=Iops(iops), throughput=_RATE)
        return _run(load, _layout(volume), _Published(_RULES, HostCap(None, None))).tps

    base = on(fewest)
    return [
        Check(f"gp3-iops: TPS, {iops:,} / {fewest:,}", tps[iops] / tps[fewest], on(iops) / base)
        for iops in tps
        if iops != fewest
    ]


def log_volume() -> list[Check]:
    """RDS's Dedicated Log Volume under 64 committing clients whose data fit into memory."""
    rows = {dict(row.levels)["log_volume"]: row for row in read_study(_DLV).rows}
    # Of the log volume's 3,000 IOPS none is free: its syncs, a transaction's share of their time
    # times the throughput, are under way nearly always.
    busy = _value(rows["with"], "wal_sync_us") * _value(rows["with"], "tps") / 1e6
    sync_us = busy / 3000 * 1e6
    data = _volume("data", "io2", 1024, iops=Iops(10_000))
    log = _volume("wal", "io2", 1024, iops=Iops(3000))
    rules = _Published(_RULES, HostCap(None, None), write_us=sync_us)

    def on(layout: Layout) -> Estimate:
        found = None
        tps = _value(rows["without"], "tps")
        for _ in range(20):
            writes = _checkpoint_writes(tps, 300.0, 10_000)
            load = _workload(
                64,
                64,
                500.0,
                write_fraction=1.0,
                wal_bytes=2000.0,
                relations=_does(0.0, 0.0, writes),
            )
            found = _run(load, layout, rules)
            tps = (tps + found.tps) / 2
        assert found is not None
        return found

    without, apart = on(_layout(data)), on(_layout(data, log))
    published = {name: _value(row, "tps") for name, row in rows.items()}
    latency = {name: _value(row, "mean_ms") for name, row in rows.items()}
    return [
        Check(
            "log volume: TPS, with / without",
            published["with"] / published["without"],
            apart.tps / without.tps,
        ),
        Check(
            "log volume: latency, with / without",
            latency["with"] / latency["without"],
            apart.response_ms / without.response_ms,
        ),
    ]


def _checkpoint_writes(tps: float, period_s: float, scale: int) -> float:
    """Device writes of one transaction that changes a row anywhere: blocks changed twice between
    two checkpoints are written once, and neighbours, sorted as a checkpoint has them, together."""
    blocks = scale * _ROWS_PER_SCALE * _ROW_BYTES / BLOCK_BYTES
    changed = -math.expm1(-tps * period_s / blocks)  # of all blocks
    return blocks * changed * (1 - changed) / (tps * period_s)


def _print(checks: list[Check]) -> None:
    print(f"{'ratio':<48}{'published':>10}{'predicted':>10}{'error':>8}")
    for check in checks:
        error = check.predicted / check.published - 1
        mark = "" if check.holds else "  MISSED"
        print(
            f"{check.text:<48}{check.published:>10.3f}{check.predicted:>10.3f}{error:>8.1%}{mark}"
        )
        if check.explanation and not check.is_close:
            print(f"    {check.explanation}")


def main() -> None:
    """Predict each study's ratios; the exit code says whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the same: it takes a second")
    arguments = parser.parse_args()
    checks = [*striping(), *gp3_iops(), *log_volume()]
    if arguments.json:
        rows = [asdict(check) | {"holds": check.holds} for check in checks]
        print(json.dumps(rows, indent=2))
    else:
        _print(checks)
    sys.exit(0 if all(check.holds for check in checks) else 1)


if __name__ == "__main__":
    main()
