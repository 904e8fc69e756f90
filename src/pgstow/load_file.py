"""Load files: TOML that says what each volume is asked through the day, to the model's LoadPlan.

Every mistake is one line that names the file, the key, the value and the rule.
"""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from pgstow.model import LoadPhase, LoadPlan, SyntheticLoad, UserError
from pgstow.model.load import DAY, INTERVAL, PAGE, STEP, Arrivals
from pgstow.units import Bytes, Seconds, parse_duration, parse_size

_DOCUMENT = "see docs/reference/load.md"


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
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"load file {path} does not exist", "give the path of one") from None
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8"
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start})", remedy) from None
    except OSError as error:
        what = f"load file {path} cannot be read: {error.strerror}"
        raise UserError(what, "check the path and its mode") from None
    return parse_load(text, str(path))


def parse_load(text: str, source: str) -> LoadPlan:
    """Read a load from the text of a file; ``source`` names it in errors.

    >>> phases = 'phases = [{ duration = "1h", iops = 500 }]'
    >>> parse_load(f"[volumes.data]\\n{phases}", "day.toml").loads[0].phases[0].iops
    500.0
    """
    try:
        table = LoadTable.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{source}: {error}", "correct the TOML") from None
    except ValidationError as error:
        raise _mistake(error.errors(include_url=False)[0], source) from None
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


def _mistake(mistake: ErrorDetails, source: str) -> UserError:
    key = ""
    for part in mistake["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f"{'.' if key else ''}{part}"
    if mistake["type"] == "extra_forbidden":
        return UserError(f"{source}: {key}: unknown key", _DOCUMENT)
    if mistake["type"] == "missing":
        return UserError(f"{source}: {key}: is missing", _DOCUMENT)
    reason = mistake.get("ctx", {}).get("error")
    rule, _, remedy = str(reason or mistake["msg"]).partition("; ")
    if not isinstance(reason, ValueError):
        rule = f"{mistake['input']!r}: {rule[0].lower()}{rule[1:]}"
    return UserError(f"{source}: {key}: {rule}", remedy or _DOCUMENT)
