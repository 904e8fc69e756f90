"""Load files: TOML that says what each volume is asked through the day, to the model's LoadPlan.

Every mistake is one line that names the file, the key, the value and the rule.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pgstow.model import LoadPhase, LoadPlan, SyntheticLoad, UserError
from pgstow.model.load import DAY, INTERVAL, PAGE, STEP, Arrivals
from pgstow.toml_file import explain, first_mistake, parse_tables, read_text
from pgstow.units import Bytes, Seconds, parse_duration, parse_size

_DOCUMENT = "docs/reference/load.md"


def _duration(value: object) -> Seconds:
    if not isinstance(value, str):
        raise ValueError("a duration is text with its unit; write it like 30min")
    return parse_duration(value)


def _size(value: object) -> Bytes:
    if not isinstance(value, str):
        raise ValueError("a size is text with its unit; write it like 8KiB")
    return parse_size(value)


Duration = Annotated[Seconds, BeforeValidator(_duration), Field(gt=0)]
Size = Annotated[Bytes, BeforeValidator(_size), Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PhaseTable(_Strict):
    """One of a volume's ``phases``."""

    duration: Duration
    iops: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    depth: Annotated[int, Field(ge=0)] | None = None


class VolumeTable(_Strict):
    """``[volumes.NAME]``"""

    phases: list[PhaseTable]
    request: Size = PAGE
    reads: Share = 1.0
    sequential: bool = False
    arrivals: Arrivals = "poisson"
    credits: Share | None = None

    def load(self, name: str) -> SyntheticLoad:
        """The table as the model's value."""
        return SyntheticLoad(
            volume=name,
            phases=tuple(LoadPhase(one.duration, one.iops, one.depth) for one in self.phases),
            request_bytes=self.request,
            read_share=self.reads,
            sequential=self.sequential,
            arrivals=self.arrivals,
            credits=self.credits,
        )


class HostTable(_Strict):
    """``[host]``"""

    credits: Share | None = None


class LoadTable(_Strict):
    """The whole file."""

    volumes: dict[str, VolumeTable]
    duration: Duration = DAY
    step: Duration = STEP
    interval: Duration = INTERVAL
    host: HostTable = HostTable()


def read_load(path: Path) -> LoadPlan:
    """Read a load file."""
    return parse_load(read_text(path, "load file"), str(path))


def parse_load(text: str, source: str) -> LoadPlan:
    """Read a load from the text of a file; ``source`` names it in errors.

    >>> phases = 'phases = [{ duration = "1h", iops = 500 }]'
    >>> parse_load(f"[volumes.data]\\n{phases}", "day.toml").loads[0].phases[0].iops
    500.0
    """
    tables = parse_tables(text, source)
    try:
        table = LoadTable.model_validate(tables)
    except ValidationError as error:
        mistake, more = first_mistake(error)
        message, remedy = explain(mistake, LoadTable, _DOCUMENT)
        raise UserError(f"{source}: {message}", remedy + more) from None
    try:
        return LoadPlan(
            loads=tuple(volume.load(name) for name, volume in table.volumes.items()),
            duration_s=table.duration,
            step_s=table.step,
            interval_s=table.interval,
            host_credits=table.host.credits,
        )
    except UserError as error:
        raise UserError(f"{source}: {error.message}", error.remedy) from None
