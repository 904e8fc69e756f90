"""Mean values of closed networks: laws of queueing theory, and known closed forms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mva import Station, solve

DEMANDS = st.floats(1e-5, 0.1)


@st.composite
def networks(draw: st.DrawFn) -> list[Station]:
    stations = [Station.delay("think", draw(st.floats(0, 1)))]
    stations.append(Station.servers("cpu", draw(DEMANDS), draw(st.integers(1, 8))))
    for index in range(draw(st.integers(0, 4))):
        stations.append(Station(f"disk {index}", draw(DEMANDS)))
    return stations


def machine_repair(think_s: float, service_s: float, customers: int) -> float:
    """Throughput of one exponential server with thinking customers (M/M/1//N), by its states."""
    weights = [1.0]
    for waiting in range(1, customers + 1):
        weights.append(weights[-1] * (customers - waiting + 1) * service_s / think_s)
    return (1 - weights[0] / sum(weights)) / service_s


@given(st.floats(0.001, 1), DEMANDS, st.integers(1, 60))
def test_one_server_is_the_machine_repair_model(think: float, service: float, n: int) -> None:
    stations = [Station.delay("think", think), Station("disk", service)]
    found = solve(stations, n).throughput_per_s
    assert found == pytest.approx(machine_repair(think, service, n), rel=1e-6)


@given(networks(), st.integers(1, 80))
@settings(max_examples=60)
def test_little_utilisation_and_bounds_hold(stations: list[Station], customers: int) -> None:
    found = solve(stations, customers)
    rate = found.throughput_per_s
    assert sum(one.queue for one in found.stations) == pytest.approx(customers, rel=1e-6)
    total_s = sum(one.residence_s for one in found.stations)
    assert rate * total_s == pytest.approx(customers, rel=1e-6)
    least_s = sum(one.demand_s for one in stations)
    assert rate <= customers / least_s * (1 + 1e-9)
    for station, means in zip(stations, found.stations, strict=True):
        assert means.residence_s >= station.demand_s * (1 - 1e-6)
        assert means.utilisation is None or means.utilisation <= 1 + 1e-9
        if station.speeds:
            assert rate <= station.speeds[-1] / station.demand_s * (1 + 1e-9)


@given(networks(), st.integers(1, 40), st.floats(1.05, 4))
@settings(max_examples=40)
def test_more_customers_or_less_demand_is_never_slower(
    stations: list[Station], customers: int, factor: float
) -> None:
    rate = solve(stations, customers).throughput_per_s
    assert solve(stations, customers + 1).throughput_per_s >= rate * (1 - 1e-9)
    for index, one in enumerate(stations):
        less = [*stations]
        less[index] = Station(one.name, one.demand_s / factor, one.speeds)
        assert solve(less, customers).throughput_per_s >= rate * (1 - 1e-9)


@given(DEMANDS, st.integers(1, 60))
def test_commits_in_groups_are_half_of_those_there(service: float, customers: int) -> None:
    found = solve([Station.batches("wal", service, customers)], customers)
    assert found.throughput_per_s == pytest.approx(max(1, customers / 2) / service, rel=1e-6)


def test_a_thousand_customers_are_no_trouble() -> None:
    stations = [Station.delay("think", 100.0), Station.servers("cpu", 0.001, 8)]
    assert solve(stations, 1000).throughput_per_s == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("stations", "customers"), [([], 3), ([Station("disk", 0.0)], 3), ([Station("disk", 0.1)], 0)]
)
def test_what_has_no_answer_is_refused(stations: list[Station], customers: int) -> None:
    with pytest.raises(ValueError, match=r"customers|time"):
        solve(stations, customers)


@pytest.mark.parametrize("demand", [-1.0, float("nan"), float("inf")])
def test_a_demand_is_a_time(demand: float) -> None:
    with pytest.raises(ValueError, match="demand"):
        Station("disk", demand)
