"""How many bytes and how much WAL a step moves, and how long it takes at the volumes' limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from pgstow.migration.pressure import Pressure
from pgstow.migration.settings import SETTINGS
from pgstow.model import DEFAULT_TABLESPACE, Layout, Relation, RelationId, ServerState
from pgstow.units import GIB

# What is assumed of a volume whose limit nobody knows: gp3 as it comes.
# https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html, 2025-09
ASSUMED_BYTES_PER_SECOND = 125 * 1024 * 1024
_OVERHEAD_SECONDS = 0.1  # locks, catalog changes, one fsync
_RESTART_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Cost:
    """How long one step is expected to take."""

    bytes: int
    wal_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimator:
    """Costs of moves between the present and the target volumes."""

    state: ServerState
    wal_volume: str
    volumes: Mapping[str, str]  # tablespace to volume, the target over the present
    rates: Mapping[str, float]
    companions: Mapping[RelationId, int]  # a table's TOAST table and its index, in bytes

    @classmethod
    def of(
        cls, state: ServerState, present: Layout, target_layout: Layout, rates: Mapping[str, float]
    ) -> Self:
        """Make one for a migration."""
        volumes = {DEFAULT_TABLESPACE: present.postgres.data}
        for layout in (present, target_layout):
            volumes |= {space.name: space.volume for space in layout.tablespaces}
        return cls(state, present.postgres.wal, volumes, rates, _companions(state))

    def beside(self, pressure: Pressure) -> "Estimator":
        """The same with what the load leaves of the volumes."""
        left = {volume: pressure.left_bytes_per_second(volume) for volume in pressure.limits}
        known = {volume: rate for volume, rate in left.items() if rate is not None}
        return replace(self, rates={**self.rates, **known})

    def move(self, relation: Relation, target: str) -> Cost:
        """An index is rebuilt, if it can be, and everything else copied."""
        method = self.rebuilt_index if is_rebuilt(relation) else self.table
        return method(relation, target)

    def table(self, relation: Relation, target: str) -> Cost:
        """SET TABLESPACE: every page is copied and, under wal_level above minimal, logged."""
        size = relation.size_bytes + self.companions.get(relation.id, 0)
        logged = relation.persistence == "permanent" and self._logs_copies()
        wal = size if logged else 0
        return self._cost(size, wal, {relation.tablespace: size}, {target: size})

    def rebuilt_index(self, relation: Relation, target: str) -> Cost:
        """REINDEX CONCURRENTLY: the table is read twice, the index written and logged.

        It is logged under wal_level = minimal too: the build is not in the transaction that
        created the index (RelationNeedsWAL in src/include/utils/rel.h).
        """
        size = relation.size_bytes
        wal = size if relation.persistence == "permanent" else 0
        table = next((r for r in self.state.relations if r.id == relation.table), None)
        reads: dict[str, int] = {}
        if table is not None:
            reads[table.tablespace] = 2 * table.size_bytes
        return self._cost(size, wal, reads, {target: size})

    def wal_move(self, source: str, target: str) -> Cost:
        """Stop, copy what pg_wal may hold, start."""
        size = wal_directory_bytes(self.state)
        seconds = max(size / self._rate(source), size / self._rate(target))
        return Cost(size, 0, seconds + _RESTART_SECONDS)

    def _cost(self, size: int, wal: int, reads: dict[str, int], writes: dict[str, int]) -> Cost:
        load: dict[str, float] = {self.wal_volume: wal}
        for spaces in (reads, writes):
            for space, amount in spaces.items():
                volume = self.volumes.get(space, space)
                load[volume] = load.get(volume, 0) + amount
        slowest = max(amount / self._rate(volume) for volume, amount in load.items())
        return Cost(size, wal, slowest + _OVERHEAD_SECONDS)

    def _rate(self, volume: str) -> float:
        return self.rates.get(volume) or ASSUMED_BYTES_PER_SECOND

    def _logs_copies(self) -> bool:
        return self.state.setting("wal_level") != "minimal"


def is_rebuilt(relation: Relation) -> bool:
    """Whether a relation is moved by building it anew, which blocks nobody."""
    return relation.kind == "index" and not relation.is_exclusion


def wal_directory_bytes(state: ServerState) -> int:
    """What pg_wal may hold: max_wal_size, or its default where it is not known."""
    text = state.setting("max_wal_size") or ""
    digits = text.rstrip("kMGTB ")
    factor = {"kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
    unit = text[len(digits) :].strip() or SETTINGS["max_wal_size"]
    if not digits.isdigit() or unit not in factor:
        return GIB
    return int(digits) * factor[unit]


def _companions(state: ServerState) -> dict[RelationId, int]:
    """Bytes of each table's TOAST table and TOAST index: SET TABLESPACE carries them along."""
    owners = {r.id: r.table for r in state.relations if r.kind == "toast" and r.table}
    sizes: dict[RelationId, int] = {}
    for relation in state.relations:
        if relation.kind not in ("toast", "toast index") or relation.table is None:
            continue
        owner = owners.get(relation.table, relation.table)
        sizes[owner] = sizes.get(owner, 0) + relation.size_bytes
    return sizes
