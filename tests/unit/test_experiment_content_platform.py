"""The content platform's sizes, rows and mix, without a server."""

import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.experiment.workloads import content_platform
from pgstow.experiment.workloads.content_platform import mix, rows, tables
from pgstow.model.errors import UserError
from pgstow.units import BLOCK_BYTES

TABLES = tuple(rows.COLUMNS)


def copied_rows(table: str, extent: tables.Extent, seed: int = 1) -> list[list[bytes]]:
    """Read COPY's binary format back, by its documented layout alone."""
    found: list[list[bytes]] = []
    for count, part in rows.chunks(table, extent, seed):
        position, before = 0, len(found)
        while position < len(part):
            (fields,) = struct.unpack_from(">h", part, position)
            position += 2
            row = []
            for _ in range(fields):
                (length,) = struct.unpack_from(">i", part, position)
                row.append(part[position + 4 : position + 4 + length])
                position += 4 + length
            found.append(row)
        assert len(found) - before == count
    return found


@given(st.floats(min_value=1, max_value=tables.LARGEST_SCALE))
def test_rows_fill_the_documented_sizes_at_any_scale(scale: float) -> None:
    extent = tables.extent(scale)
    for table, rows_per_block in tables.ROWS_PER_BLOCK.items():
        blocks = extent.rows(table) / rows_per_block
        wanted = tables.documented(table).size_bytes / scale / BLOCK_BYTES
        assert abs(blocks - wanted) <= 1


@pytest.mark.parametrize("scale", [0.5, 0, -1, 6000])
def test_a_scale_that_cannot_be_is_refused(scale: float) -> None:
    with pytest.raises(UserError, match="choose a scale"):
        tables.extent(scale)


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_in_the_format_of_copy(table: str) -> None:
    extent = tables.extent(5000)
    found = copied_rows(table, extent)
    assert len(found) == extent.rows(table)
    for row in found[:: max(1, len(found) // 50)]:
        assert len(row) == len(rows.COLUMNS[table])
        for value, (_, kind) in zip(row, rows.COLUMNS[table], strict=True):
            if kind.startswith("S"):
                assert len(value) == int(kind[1:])
                assert value.isascii()
                assert b"\0" not in value


@pytest.mark.parametrize("table", TABLES)
def test_the_same_seed_makes_the_same_rows(table: str) -> None:
    extent = tables.extent(5000)
    first = list(rows.chunks(table, extent, 3))
    assert first == list(rows.chunks(table, extent, 3))
    assert first != list(rows.chunks(table, extent, 4))


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_an_articles_place_says_nothing_of_its_category_or_date(seed: int) -> None:
    import numpy as np

    extent = tables.extent(200)
    numbers = np.arange(20_000, dtype=np.int64)
    values = rows._articles(numbers, extent, seed)
    for name in ("category_id", "published_at"):
        column = values[name].astype(float)
        assert abs(np.corrcoef(numbers, column)[0, 1]) < 0.05
    assert values["category_id"].min() == 1
    assert values["category_id"].max() == tables.CATEGORIES


def test_the_mix_has_the_documented_rates() -> None:
    spec = content_platform.workload(tables.extent(16))
    scale = sum(part.transactions_per_s for part in mix.PARTS) / spec.total_weight
    for part, script in zip(mix.PARTS, spec.scripts, strict=True):
        rate = script.weight * scale * part.per_transaction
        assert rate == pytest.approx(part.rate, rel=0.02)


def test_about_a_third_of_the_transactions_write() -> None:
    spec = content_platform.workload(tables.extent(16))
    writing = {part.script for part in mix.PARTS if part.writes}
    weight = sum(script.weight for script in spec.scripts if script.name in writing)
    assert 0.3 < weight / spec.total_weight < 0.4


def test_the_scripts_know_all_variables_they_use() -> None:
    spec = content_platform.workload(tables.extent(16))
    given_ones = {name for name, _ in spec.variables}
    for script in spec.scripts:
        text = script.path.read_text()
        set_here = set(re.findall(r"^\\set (\w+)", text, flags=re.MULTILINE))
        assert set(re.findall(r"(?<!:):([a-z]\w*)", text)) <= given_ones | set_here


def test_every_lookup_of_the_mix_is_in_its_script() -> None:
    """A part's ``per_transaction`` is what its script does."""
    spec = content_platform.workload(tables.extent(16))
    keys = {"read_articles": "id", "browse_categories": "category", "read_daily": "article"}
    for part, script in zip(mix.PARTS, spec.scripts, strict=True):
        text = script.path.read_text()
        if part.script in keys:
            drawn = re.findall(rf"^\\set {keys[part.script]}\d+ random", text, re.MULTILINE)
            assert len(drawn) == part.per_transaction
    (batch,) = re.findall(r"generate_series\(1, (\d+)\)", spec.scripts[2].path.read_text())
    assert int(batch) == mix.PARTS[2].per_transaction
