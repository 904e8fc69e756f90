"""Quantities as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow import units


@given(st.integers(1, 2**50))
def test_an_exact_size_reads_back(size: int) -> None:
    assert units.parse_size(units.format_exact_size(size)) == size


@pytest.mark.parametrize("text", ["", "500", "GiB", "-1GiB", "5 GB/s", "1e3GiB", "1.GiB", "5gib"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="500GiB"):
        units.parse_size(text)


@pytest.mark.parametrize("text", ["125", "125MiB", "125 MiB / h", "/s"])
def test_what_is_no_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="250MiB/s"):
        units.parse_rate(text)


def test_decimal_and_binary_units_differ() -> None:
    assert units.parse_size("1GB") == 10**9
    assert units.parse_size("1GiB") == 2**30


def test_an_unknown_price_is_not_zero() -> None:
    assert units.format_usd(None) == "unknown"
