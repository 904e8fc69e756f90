"""Faults of an emulated volume: the kinds that the server has."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

Loss = Literal["all", "subset", "reorder", "torn"]
FaultOperation = Literal["read", "write", "flush"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """What was not flushed is lost, and every request fails until the fault is cleared.

    ``all``: every write; ``subset``: each by a coin; ``reorder``: the survivors in another order;
    ``torn``: of some writes only some sectors survive. The same seed loses the same.
    """

    kind: Literal["power-loss"] = "power-loss"
    loss: Loss = "all"
    sector_bytes: int = 512  # or 4096; what a torn write keeps or loses as a whole
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Nothing is answered until the fault ends."""

    kind: Literal["stall"] = "stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Operations that touch a range of bytes fail with EIO; discards are writes."""

    kind: Literal["error"] = "error"
    operations: tuple[FaultOperation, ...] = ("read", "write")
    offset: int = 0
    length: int | None = None  # none: to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Latencies, not the waits before the limits, times a factor."""

    kind: Literal["slow"] = "slow"
    factor: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disappear:
    """The device is gone: every request fails."""

    kind: Literal["disappear"] = "disappear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Writes to blocks that were never written fail with ENOSPC."""

    kind: Literal["full"] = "full"


Fault = Annotated[PowerLoss | Stall | Error | Slow | Disappear | Full, Field(discriminator="kind")]


def to_json(fault: Fault) -> dict[str, Any]:
    """A fault as the control protocol has it."""
    return asdict(fault)
