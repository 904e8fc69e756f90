"""What a relation's space and I/O cost on each volume type, and where two types break even.

Prices are of space and I/O beyond what is included with a volume: what the next relation costs. A
type whose I/O comes with its space (gp2, st1) makes a busy relation buy space it does not fill.
"""

import math
from dataclasses import dataclass

from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.prediction import SEQUENTIAL_READ_BYTES
from pgstow.units import MIB


@dataclass(frozen=True, slots=True)
class Access:
    """What a relation asks, per second, of its size in GiB."""

    gib: float
    random_iops: float  # reads and writes of a block anywhere
    sequential_iops: float  # reads of 128 KiB one after the other

    @property
    def iops(self) -> float:
        """All of its operations."""
        return self.random_iops + self.sequential_iops

    @property
    def density(self) -> float:
        """Operations per second of each GiB."""
        return self.iops / self.gib if self.gib > 0 else math.inf

    def at_density(self, density: float) -> "Access":
        """The same mix of operations on one GiB, ``density`` of them a second."""
        random = self.random_iops / self.iops if self.iops > 0 else 1.0
        return Access(1.0, density * random, density * (1 - random))


@dataclass(frozen=True, slots=True)
class Margins:
    """Shares of space and of every limit that stay free."""

    free_space: float
    headroom: float


def gib_bought(candidate: CandidateVolume, access: Access, margins: Margins) -> float:
    """The space that has to be bought: for what is stored, or for the I/O that comes with it."""
    iops, rate = _gross(candidate, access, margins)
    return candidate.rules.gib_for(access.gib / (1 - margins.free_space), iops, rate)


def usd_month(candidate: CandidateVolume, access: Access, margins: Margins) -> float:
    """What a relation's space and I/O cost a month, beyond what is included."""
    iops, rate = _gross(candidate, access, margins)
    return (
        gib_bought(candidate, access, margins) * candidate.usd_per_gib
        + iops * candidate.usd_per_iops
        + rate / MIB * candidate.usd_per_mibps
    )


def break_even(
    one: CandidateVolume, other: CandidateVolume, access: Access, margins: Margins
) -> float | None:
    """The least density (I/O per second of each GiB) at which both cost the same; None: never.

    Both prices are piecewise linear in the density, so each piece is solved by itself.
    """

    def difference(density: float) -> float:
        at = access.at_density(density)
        return usd_month(one, at, margins) - usd_month(other, at, margins)

    kinks = sorted(
        {_kink(candidate, access, margins) for candidate in (one, other)} - {0.0, math.inf}
    )
    edges = [0.0, *kinks]
    for number, low in enumerate(edges):
        high = edges[number + 1] if number + 1 < len(edges) else 2 * low + 1.0
        at_low, at_high = difference(low), difference(high)
        slope = (at_high - at_low) / (high - low)
        if abs(slope) < 1e-15:
            continue
        crossing = low - at_low / slope
        is_last = number + 1 == len(edges)
        if crossing > 0 and low <= crossing and (is_last or crossing <= high):
            return crossing
    return None


def _gross(candidate: CandidateVolume, access: Access, margins: Margins) -> tuple[float, float]:
    """IOPS and bytes per second to buy, headroom included."""
    used = 1 - margins.headroom
    rate = (
        access.random_iops * candidate.random_io_bytes
        + access.sequential_iops * SEQUENTIAL_READ_BYTES
    )
    return access.iops / used, rate / used


def _kink(candidate: CandidateVolume, access: Access, margins: Margins) -> float:
    """The density from which the I/O, not what is stored, says how much space is bought."""
    stored = 1.0 / (1 - margins.free_space)
    iops, rate = _gross(candidate, access.at_density(1.0), margins)
    needed = candidate.rules.gib_for(0.0, iops, rate)
    return stored / needed if needed > 0 else math.inf
