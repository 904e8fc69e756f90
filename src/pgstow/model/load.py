"""A synthetic load: what each volume is asked through the day, for forecasts of credits."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model.errors import UserError
from pgstow.units import BLOCK_BYTES, Bytes, Seconds

Arrivals = Literal["poisson", "constant"]
PAGE = Bytes(BLOCK_BYTES)
DAY = Seconds(86400.0)
STEP = Seconds(1.0)
INTERVAL = Seconds(300.0)


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """For some time either ``iops`` requests a second, or ``depth`` of them always under way.

    Requests of a rate come whether earlier ones are answered or not, and queue; those of a depth
    are each sent when one before is answered.
    """

    duration_s: Seconds
    iops: float | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        if self.duration_s <= 0:
            raise UserError("a phase of a load has no duration", "write it like 30min")
        if (self.iops is None) == (self.depth is None):
            raise UserError("a phase of a load needs either iops or depth", "give one of them")
        if (self.iops or 0) < 0 or (self.depth or 0) < 0:
            raise UserError("a phase of a load asks for less than nothing", "use 0 for idle time")


@dataclass(frozen=True, slots=True)
class SyntheticLoad:
    """What one volume is asked. The phases follow each other and begin again after the last."""

    volume: str
    phases: tuple[LoadPhase, ...]
    request_bytes: Bytes = PAGE
    read_share: float = 1.0
    sequential: bool = False
    arrivals: Arrivals = "poisson"
    credits: float | None = None  # of a full bucket, at the start; None: as the device says

    def __post_init__(self) -> None:
        what = f"load of volume {self.volume}"
        if not self.phases:
            raise UserError(f"{what}: it has no phases", "write at least one")
        if self.request_bytes <= 0:
            raise UserError(f"{what}: the request has no size", "write it like 8KiB")
        for name, share in (("reads", self.read_share), ("credits", self.credits)):
            if share is not None and not 0 <= share <= 1:
                raise UserError(f"{what}: {name} is {share:g}", "use a share from 0 to 1")
        if self.sequential and self.read_share not in (0, 1):
            remedy = "set reads to 1 or 0: what is sequential reads or writes"
            raise UserError(f"{what}: {self.read_share:g} of a sequential load reads", remedy)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The loads of a host's volumes, and for how long they are to be run."""

    loads: tuple[SyntheticLoad, ...]
    duration_s: Seconds = DAY
    step_s: Seconds = STEP  # requests of one step pass the limits at once
    interval_s: Seconds = INTERVAL  # of the series put out
    host_credits: float | None = None  # None: the host never bursts

    def __post_init__(self) -> None:
        if not self.loads:
            raise UserError("the load names no volumes", "write at least one [volumes.NAME]")
        if not 1e-3 <= self.step_s <= self.duration_s:
            remedy = "use at least 1ms, and no more than the duration"
            raise UserError(f"the load's step is {self.step_s:g} s", remedy)
        if self.host_credits is not None and not 0 <= self.host_credits <= 1:
            remedy = "use a share from 0 to 1"
            raise UserError(f"the host's credits are {self.host_credits:g}", remedy)
