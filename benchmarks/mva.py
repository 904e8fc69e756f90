"""Mean values of a closed network of queues, exactly.

The normalising constants are convolved (Buzen, "Computational algorithms for closed queueing
networks with exponential servers", CACM 1973): for stations whose speed depends on how many are
there, recursion over marginal probabilities loses its digits, and sums of positive terms do not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Logs = NDArray[np.float64]
_DELAY: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Station:
    """Where customers are served; ``demand_s`` is of one transaction, over all its visits.

    ``speeds`` are relative to one customer alone: with 1, 2, … customers there, the last for more
    than those. None at all is a delay, where nobody waits for another.
    """

    name: str
    demand_s: float
    speeds: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.demand_s) and self.demand_s >= 0):
            raise ValueError(f"station {self.name}: no demand is {self.demand_s} s")
        if any(speed <= 0 for speed in self.speeds):
            raise ValueError(f"station {self.name}: speeds must be positive")

    @classmethod
    def delay(cls, name: str, demand_s: float) -> "Station":
        """A latency, or the time in which a client thinks."""
        return cls(name, demand_s, _DELAY)

    @classmethod
    def servers(cls, name: str, demand_s: float, count: int) -> "Station":
        """One queue before several servers, as processors are."""
        return cls(name, demand_s, tuple(float(one) for one in range(1, count + 1)))

    @classmethod
    def batches(cls, name: str, service_s: float, customers: int) -> "Station":
        """A server of batches, as group commit is: who comes while one is served is in the next.

        With j there that come again at once, j / 2 are in each batch in the mean.
        """
        speeds = tuple(max(1.0, count / 2) for count in range(1, customers + 1))
        return cls(name, service_s, speeds)

    def logs(self, customers: int) -> _Logs:
        """Logarithms of the station's factors for 0 … ``customers`` customers at it."""
        count = np.arange(1, customers + 1, dtype=np.float64)
        speeds = count
        if self.speeds:
            last = len(self.speeds) - 1
            speeds = np.asarray(self.speeds)[np.minimum(count.astype(int) - 1, last)]
        with np.errstate(divide="ignore"):
            steps = np.log(self.demand_s) - np.log(speeds)
        return np.concatenate(([0.0], np.cumsum(steps)))


@dataclass(frozen=True, slots=True)
class StationMeans:
    """One station: customers there, time there per transaction, and how busy it is: the service
    that is asked of it per second over what it could give at its fastest (None: a delay)."""

    name: str
    queue: float
    residence_s: float
    utilisation: float | None


@dataclass(frozen=True, slots=True)
class NetworkSolution:
    """A network's mean values with so many customers."""

    throughput_per_s: float
    stations: tuple[StationMeans, ...]

    def station(self, name: str) -> StationMeans:
        """The one of that name."""
        return next(one for one in self.stations if one.name == name)


def solve(stations: Sequence[Station], customers: int) -> NetworkSolution:
    """The mean values of a product-form network; of no time at all ValueError.

    >>> round(solve([Station("disk", 0.01)], 5).throughput_per_s, 6)
    100.0
    """
    if customers < 1:
        raise ValueError(f"a closed network of {customers} customers does nothing")
    if sum(one.demand_s for one in stations) <= 0:
        raise ValueError("no station asks for any time")
    factors = [one.logs(customers) for one in stations]
    before = [_empty(customers)]
    for one in factors:
        before.append(_convolved(before[-1], one))
    after = [_empty(customers)]
    for one in reversed(factors):
        after.append(_convolved(after[-1], one))
    after.reverse()
    constants = before[-1]
    throughput = math.exp(constants[-2] - constants[-1])
    found = []
    counts = np.arange(customers + 1)
    for index, station in enumerate(stations):
        others = _convolved(before[index], after[index + 1])
        shares = np.exp(factors[index] + others[::-1] - constants[-1])
        queue = float(counts @ shares)
        busy = throughput * station.demand_s / station.speeds[-1] if station.speeds else None
        found.append(StationMeans(station.name, queue, queue / throughput, busy))
    return NetworkSolution(throughput, tuple(found))


def _empty(customers: int) -> _Logs:
    """No station at all: only nobody can be there."""
    logs = np.full(customers + 1, -np.inf)
    logs[0] = 0.0
    return logs


def _convolved(one: _Logs, other: _Logs) -> _Logs:
    """The logarithms of two sequences' convolution, as far as they reach."""
    size = len(one)
    shifted = np.full((size, size), -np.inf)
    for row in range(size):
        shifted[row, : row + 1] = one[: row + 1] + other[row::-1]
    highest = shifted.max(axis=1)
    finite = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        logs: _Logs = np.log(np.exp(shifted - finite[:, None]).sum(axis=1)) + finite
    return logs
