"""What is known of data before they are made: their tables and approximate size."""

from pgstow.experiment.workloads import pgbench_data, sysbench
from pgstow.experiment.workloads.content_platform import total_bytes
from pgstow.experiment.workloads.content_platform.tables import ROWS_PER_BLOCK
from pgstow.model.experiment import DataChoice
from pgstow.units import GIB, MIB

_TPCC_TABLES = (
    "customer", "district", "history", "item", "new_order", "order_line", "orders", "stock",
    "warehouse",
)  # fmt: skip
_TPCH_TABLES = (
    "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
)  # fmt: skip
_TABLES: dict[str, tuple[str, ...]] = {
    "pgbench": ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"),
    "sysbench": ("sbtest*",),
    "content-platform": tuple(sorted(ROWS_PER_BLOCK)),
}
_EMPTY_BYTES = 32 * MIB  # of a cluster
_ROW_BYTES = 134  # of pgbench_accounts: 61 to a block
_INDEX_ROW_BYTES = 22.5
_SYSBENCH_ROW_BYTES = 250  # with its two indexes
_WAREHOUSE_BYTES = 110 * MIB  # of TPC-C, with indexes
_TPCH_SCALE_BYTES = 2 * GIB


def expected_bytes(data: DataChoice) -> int:
    """About how large the data will be, with a server's own files."""
    options = dict(data.options)
    if data.maker == "content-platform":
        return _EMPTY_BYTES + int(total_bytes(data.scale))
    if data.maker == "go-tpc":
        each = _TPCH_SCALE_BYTES if _is_tpch(data) else _WAREHOUSE_BYTES
        return _EMPTY_BYTES + data.scale * each
    if data.maker == "sysbench":
        rows = data.scale * sysbench.ROWS_PER_SCALE * int(options.get("tables", "1"))
        return _EMPTY_BYTES + rows * _SYSBENCH_ROW_BYTES
    rows = data.scale * pgbench_data.ROWS_PER_SCALE
    table_bytes = rows * _ROW_BYTES * 100 / int(options.get("fillfactor", "100"))
    indexes = 1 + int(options.get("extra_indexes", "0"))
    return round(_EMPTY_BYTES + table_bytes + rows * _INDEX_ROW_BYTES * indexes)


def tables_among(names: tuple[str, ...], data: DataChoice) -> tuple[str, ...]:
    """Those of a database's tables that are named as the data's."""
    return tuple(name for name in names if any(_matches(name, one) for one in _patterns(data)))


def missing_tables(names: tuple[str, ...], data: DataChoice) -> tuple[str, ...]:
    """Tables of the data that a database does not have."""
    return tuple(
        pattern for pattern in _patterns(data) if not any(_matches(name, pattern) for name in names)
    )


def _patterns(data: DataChoice) -> tuple[str, ...]:
    if data.maker == "go-tpc":
        return _TPCH_TABLES if _is_tpch(data) else _TPCC_TABLES
    return _TABLES.get(data.maker, ())


def _is_tpch(data: DataChoice) -> bool:
    return dict(data.options).get("benchmark") == "tpch"


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
