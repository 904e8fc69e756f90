"""The file beside a recorded trace: the devices it was recorded on, as the emulator wrote them.

docs/emulator-protocol.md has the format.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pgstow.model import UserError

_DOCUMENT = "see docs/emulator-protocol.md"


@dataclass(frozen=True, slots=True)
class Recording:
    """The emulator's state when the recording began.

    Devices and the host's cap are kept as the device model reads them. Credits are those left
    over all members; for the host, shares of its half hour.
    """

    version: int
    devices: Sequence[dict[str, Any]]
    compensation: Mapping[str, float]  # read_us, write_us
    host: dict[str, Any] | None = None
    seed: int = 0
    credits: Mapping[str, float | None] | None = None
    host_credits: Mapping[str, float | None] | None = None
    dropped: int = 0

    def initial_devices(self) -> list[dict[str, Any]]:
        """The devices with the credits that they had."""
        left = self.credits or {}
        return [_with_credits(device, left.get(device["name"])) for device in self.devices]

    def initial_host(self) -> dict[str, Any] | None:
        """The host's cap with the credits that it had."""
        left = [share for share in (self.host_credits or {}).values() if share is not None]
        if self.host is None or not left:
            return self.host
        return {**self.host, "burst_initial": min(left)}


def _with_credits(device: dict[str, Any], left: float | None) -> dict[str, Any]:
    burst = device["member"].get("burst")
    if burst is None or left is None:
        return device
    share = left / (burst["capacity"] * device["stripes"])
    burst = {**burst, "initial": min(1.0, max(0.0, share))}
    return {**device, "member": {**device["member"], "burst": burst}}


def sidecar(trace: Path) -> Path:
    """Where the file beside a trace is.

    >>> sidecar(Path("run.csv")).name
    'run.csv.json'
    """
    return trace.with_name(trace.name + ".json")


def has_recording(trace: Path) -> bool:
    """Whether there is a file beside a trace."""
    return bool(trace.name) and os.path.lexists(sidecar(trace))


def read_recording(trace: Path) -> Recording:
    """Read the file beside a trace."""
    if not trace.name:
        raise UserError(f"{trace} is not a file", "name a trace")
    path = sidecar(trace)
    try:
        recording = TypeAdapter(Recording).validate_python(json.loads(path.read_bytes()))
    except FileNotFoundError:
        remedy = "copy it with the trace, or say what to replay on with --layout"
        raise UserError(f"{path} does not exist", remedy) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "check its mode") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {key}: {first['msg'].lower()}", _DOCUMENT) from None
    except RecursionError:
        raise UserError(f"{path} is nested too deep", _DOCUMENT) from None
    except ValueError as error:  # of json
        raise UserError(f"{path} is not JSON: {error}", _DOCUMENT) from None
    if recording.version != 1:
        remedy = "use the pgstow that recorded it"
        raise UserError(f"{path} has version {recording.version}, not 1", remedy)
    return recording
