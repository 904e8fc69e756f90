"""Talk to the emulator's server over its control socket."""

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pgstow.emulate import faults
from pgstow.emulate.faults import Fault
from pgstow.model import Device, HostCap
from pgstow.model.errors import HostError
from pgstow.typed import adapter

_TIMEOUT_S = 10.0
_RELEASE_TIMEOUT_S = 5.0
_RELEASE_POLL_S = 0.02


class ServerGoneError(HostError):
    """The server does not answer."""


class OtherVersionError(HostError):
    """The server answers, in words of another version of pgstow."""


class RefusedError(HostError):
    """The server did not do what it was asked; ``reason`` is its own words."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"the emulator's server refused {command}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Compensation:
    """What is taken off latencies: what the way to the server and back takes by itself."""

    read_us: float = 0.0
    write_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Modification:
    """A modification that is under way; ``progress`` goes from 0 to 1."""

    progress: float
    ends_in_s: float


@dataclass(frozen=True, slots=True)
class ServerBacking:
    """What a volume is made of; all but the kind is of files."""

    kind: Literal["memory", "file"]
    path: str | None = None
    keep: bool = False
    direct_io: bool | None = None  # past the page cache
    free_bytes: int | None = None  # where the file is
    broken: bool = False  # it could not be put back after a power loss


@dataclass(frozen=True, slots=True)
class ServerVolume:
    """One volume as its server sees it; times are sums over all operations."""

    name: str
    size_bytes: int
    resident_bytes: int
    reads: int
    writes: int
    flushes: int
    read_bytes: int
    write_bytes: int
    read_us_total: float
    write_us_total: float
    in_flight: int
    limits_enabled: bool
    device: Device
    backing: ServerBacking
    volatile: bool
    unflushed_writes: int
    unflushed_bytes: int
    undo_refused_writes: int
    modification: Modification | None = None
    modifications_24h: int = 0
    late_us_total: float = 0.0  # by how much answers came later than the model said, in all
    credits: float | None = None  # of all members; None: it has none


@dataclass(frozen=True, slots=True)
class Lost:
    """What a power cut took from one volume, of what had not been flushed."""

    name: str
    unflushed_writes: int
    unflushed_bytes: int
    lost_writes: int  # those of which anything was lost
    lost_bytes: int


@dataclass(frozen=True, slots=True)
class ServerFault:
    """A fault that is active or waits for its time; no volumes are all."""

    id: int
    fault: Fault
    volumes: tuple[str, ...] | None
    state: Literal["waiting", "active"]
    starts_in_s: float
    ends_in_s: float | None
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was taken: its number to clear it by, and what an immediate cut lost."""

    id: int
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server's answer to ``status``."""

    pid: int
    compensation: Compensation
    limits_enabled: bool
    host: HostCap | None
    volumes: tuple[ServerVolume, ...]
    faults: tuple[ServerFault, ...]

    def find(self, name: str) -> ServerVolume | None:
        """The volume of that name, if it is up."""
        return next((volume for volume in self.volumes if volume.name == name), None)


@dataclass(frozen=True, slots=True)
class Bin:
    """Requests that took ``low_us`` or longer and less than ``high_us``; None: no end."""

    low_us: int
    high_us: int | None
    count: int


@dataclass(frozen=True, slots=True)
class ExceededUs:
    """For how long demand was beyond each limit."""

    volume_iops: float
    volume_throughput: float
    instance_iops: float
    instance_throughput: float


@dataclass(frozen=True, slots=True)
class VolumeCounters:
    """What one volume has done since it was made; ``queue_us_total`` is length times time."""

    name: str
    reads: int
    writes: int
    flushes: int
    read_bytes: int
    write_bytes: int
    read_us_total: float
    write_us_total: float
    idle_us_total: float
    queue_length: int
    queue_us_total: float
    exceeded_us: ExceededUs
    read_latency_histogram: tuple[Bin, ...]
    write_latency_histogram: tuple[Bin, ...]
    burst_balance_percent: float | None
    late_us_total: float = 0.0  # by how much answers came later than the model said
    # The histograms in finer parts: from where on in microseconds, how wide, how many.
    read_latency_parts: tuple[tuple[float, float, int], ...] = ()
    write_latency_parts: tuple[tuple[float, float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """The server's answer to ``stats``: sums since its volumes were made."""

    uptime_s: float
    volumes: tuple[VolumeCounters, ...]
    busy_us_total: float = 0.0  # of the server's one thread, which answers for all volumes

    def find(self, name: str) -> VolumeCounters | None:
        """The volume of that name, if it is up."""
        return next((volume for volume in self.volumes if volume.name == name), None)


@dataclass(frozen=True, slots=True)
class Recorded:
    """How many requests a recording has, and how many came faster than they could be kept."""

    path: Path
    records: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBacking:
    """A volume's data is a sparse file, made where it is missing.

    ``keep``: it stays when the volume or the server goes, and one that exists is taken with what
    is in it. Else one that exists is refused.
    """

    path: str  # absolute
    keep: bool = False
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True)
class Control:
    """A server's control socket; each command is a connection of its own."""

    path: Path
    timeout_s: float = _TIMEOUT_S

    def status(self) -> ServerStatus:
        """What the server has and has done."""
        answer = self._ask({"command": "status"})
        try:
            return adapter(ServerStatus).validate_python(answer)
        except ValidationError as error:
            raise OtherVersionError(
                f"the emulator's server at {self.path} is of another version of pgstow",
                f"end it with pgstow emulate down --state-dir {self.path.parent}, then up",
            ) from error

    def add(self, device: Device, backing: FileBacking | None = None) -> None:
        """Make a volume: of memory, all zeros, or of a file.

        Raises HostError where the file cannot be made, or exists and is not to be kept.
        """
        if backing is None:
            self._ask({"command": "add", "device": asdict(device)})
        else:
            self._ask({"command": "add", "device": asdict(device), "backing": asdict(backing)})

    def set(self, device: Device) -> None:
        """Change a volume's limits and latency while it is in use."""
        self._ask({"command": "set", "device": asdict(device)})

    def modify(self, device: Device, optimising_s: float) -> None:
        """Change a volume as ModifyVolume does: its limits over so many seconds."""
        self._ask({"command": "modify", "device": asdict(device), "optimising_s": optimising_s})

    def remove(self, name: str) -> None:
        """Remove a volume and what is in it."""
        deadline = time.monotonic() + _RELEASE_TIMEOUT_S
        while True:
            try:
                self._ask({"command": "remove", "name": name})
                return
            except ServerGoneError:
                raise
            except HostError:  # the kernel closes a detached loop device's file a little later
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RELEASE_POLL_S)

    def set_host(self, cap: HostCap | None) -> None:
        """Change the cap that all volumes share."""
        self._ask({"command": "host", "host": None if cap is None else asdict(cap)})

    def set_limits(self, enabled: bool, name: str | None = None) -> None:
        """Switch limits and latency on or off, of one volume or of all."""
        only = {} if name is None else {"name": name}
        self._ask({"command": "limits", "enabled": enabled, **only})

    def set_credits(self, fraction: float, name: str | None = None) -> None:
        """Fill the buckets of burst credits of one volume, or of all that have some."""
        self._ask({"command": "credits", "fraction": fraction, "name": name})

    def set_compensation(self, compensation: Compensation) -> None:
        """Change what is taken off latencies."""
        self._ask({"command": "compensation", **asdict(compensation)})

    def statistics(self) -> ServerStatistics:
        """What each volume has done, in full."""
        return adapter(ServerStatistics).validate_python(self._ask({"command": "stats"}))

    def start_recording(self, path: Path, volumes: Sequence[str] | None = None) -> None:
        """Record every request to some volumes, or all, into a new CSV file."""
        names = None if volumes is None else list(volumes)
        self._ask({"command": "trace", "path": str(path.absolute()), "volumes": names})

    def stop_recording(self) -> Recorded:
        """End the recording. The file is whole when there is another beside it, PATH.json."""
        return adapter(Recorded).validate_python(self._ask({"command": "trace", "path": None}))

    def set_volatile(self, enabled: bool, name: str | None = None) -> None:
        """Keep what is not flushed undoable, of one volume or of all, those to come too.

        Off, as at the start, what is answered is durable, and there is nothing for a cut to take.
        """
        self._ask({"command": "volatile", "enabled": enabled, "name": name})

    def fault(
        self,
        fault: Fault,
        volumes: Sequence[str] | None = None,
        *,
        after_s: float = 0.0,
        for_s: float | None = None,
    ) -> Injected:
        """Let something go wrong with some volumes, or with all: now or later, for good or a time.

        Raises HostError where the server refuses, as a power loss of what is not volatile.
        """
        answer = self._ask(
            {
                "command": "fault",
                "fault": faults.to_json(fault),
                "volumes": None if volumes is None else list(volumes),
                "after_s": after_s,
                "for_s": for_s,
            }
        )
        return adapter(Injected).validate_python(answer)

    def clear(self, fault_id: int | None = None) -> None:
        """End one fault, or all with those that wait; after a power loss the power is back."""
        self._ask({"command": "clear", "id": fault_id})

    def shutdown(self) -> None:
        """End the server."""
        self._ask({"command": "shutdown"})

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = json.loads(self._exchange(json.dumps(command).encode() + b"\n"))
        except PermissionError as error:
            message = f"the emulator's control socket {self.path} is closed to this user"
            raise HostError(message, "run this as root") from error
        except (OSError, ValueError) as error:
            raise ServerGoneError(
                f"the emulator's server does not answer on {self.path}: {error}",
                "run pgstow emulate down, then up",
            ) from error
        if not answer.get("ok"):
            reason = answer.get("error", "no reason given")
            raise RefusedError(command["command"], reason)
        return dict(answer)

    def _exchange(self, line: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(self.timeout_s)
            connection.connect(str(self.path))
            connection.sendall(line)
            received = b""
            while not received.endswith(b"\n"):
                part = connection.recv(65536)
                if not part:
                    break
                received += part
        return received
