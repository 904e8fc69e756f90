"""nbdkit with its delay and rate filters, through nbdfuse and loop devices."""

import re
import shutil
from functools import partial
from pathlib import Path

from pgstow.emulate.bench import subject
from pgstow.emulate.bench.peer_volumes import PeerVolumes
from pgstow.emulate.bench.subject import MountedVolumes
from pgstow.emulate.bench.trials import Target
from pgstow.host import mounts, programs
from pgstow.model import Latency

PROGRAMS = ("nbdkit", "nbdfuse")
_VERSION_TIMEOUT_S = 10.0
_THREADS = 128  # of a connection: each delayed request keeps one
_CONNECTIONS = 4  # nbdfuse's own choice; one alone takes three delayed requests at a time
_MICROSECONDS_SINCE = (1, 40)  # nbdkit-delay-filter(1); whole milliseconds before
# What the way through nbdfuse, the loop device and nbdkit takes by itself, about: of two whole
# milliseconds the nearer one is chosen with that in mind.
_WAY_US = 100


class Nbdkit:
    """An nbdkit and an nbdfuse for each volume; under a host cap one nbdkit, with its rate.

    There each volume is one connection, since a rate is either a connection's or the server's.
    """

    name = "nbdkit"

    def __init__(self, volumes: PeerVolumes) -> None:
        text = programs.run(["nbdkit", "--version"], timeout_s=_VERSION_TIMEOUT_S)
        self.version = text.split()[1]
        self._volumes = volumes

    def bring_up(self, target: Target) -> MountedVolumes:
        """Start the programs with the target's figures."""
        names = subject.volume_names(target.volumes)
        self._volumes.prepare(names)
        self._sockets.mkdir(parents=True, exist_ok=True)
        for server, socket in self._servers(target):
            self._volumes.start(server, socket.is_socket)
        for name in names:
            export = self._export(name)
            export.parent.mkdir(parents=True, exist_ok=True)
            self._volumes.start(self._fuse(name, target), partial(_is_mounted, export.parent))
            self._volumes.attach(name, export)
        return self._volumes.mounted(names)

    def take_down(self) -> None:
        """End the programs."""
        self._volumes.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def cannot(self, target: Target) -> tuple[str, ...]:
        """It limits bytes, not operations, and delays by a constant."""
        found = []
        if target.iops is not None:
            found.append("limit IOPS")
        if target.host_cap is not None:
            found.append("limit a host's IOPS")
        latency = target.latency
        if any(us != self._delay_us(us) for us in (latency.read_us_p50, latency.write_us_p50)):
            found.append("delay by less than whole milliseconds")
        if (latency.read_us_p50, latency.write_us_p50) != (
            latency.read_us_p99,
            latency.write_us_p99,
        ):
            found.append("give latency a tail")
        return tuple(found)

    def commands(self, target: Target) -> tuple[str, ...]:
        """The programs' command lines."""
        servers = [server for server, _ in self._servers(target)]
        fuse = [self._fuse(name, target) for name in subject.volume_names(target.volumes)]
        return tuple(" ".join(arguments) for arguments in (*servers, *fuse))

    @property
    def _sockets(self) -> Path:
        return self._volumes.exports / "nbdkit-sockets"

    def _export(self, name: str) -> Path:
        return self._volumes.exports / self.name / name / "disk"

    def _servers(self, target: Target) -> list[tuple[list[str], Path]]:
        """Each nbdkit's arguments and socket."""
        rate, cap, images = target.bytes_per_second, target.host_cap, self._volumes.images
        if cap is not None:
            rates = [] if rate is None else [f"connection-rate={rate * 8:.0f}"]
            if cap.bytes_per_second is not None:
                rates.append(f"rate={cap.bytes_per_second * 8:.0f}")
            return [self._server(target.latency, rates, f"dir={images}", "all")]
        rates = [] if rate is None else [f"rate={rate * 8:.0f}"]
        return [
            self._server(target.latency, rates, f"file={images / name}", name)
            for name in subject.volume_names(target.volumes)
        ]

    def _server(
        self, latency: Latency, rates: list[str], files: str, name: str
    ) -> tuple[list[str], Path]:
        """``rates`` are in bits per second."""
        delays = (("delay-read", latency.read_us_p50), ("delay-write", latency.write_us_p50))
        options = [f"{key}={self._delay(us)}" for key, us in delays if self._delay_us(us)]
        filters = (["--filter=delay"] if options else []) + (["--filter=rate"] if rates else [])
        socket = self._sockets / f"{name}.sock"
        server = ["nbdkit", "--foreground", "--exit-with-parent", "--threads", str(_THREADS)]
        server += ["--unix", str(socket), *filters, "file", files, *options, *rates]
        return server, socket

    def _fuse(self, name: str, target: Target) -> list[str]:
        if target.host_cap is not None:
            uri = f"nbd+unix:///{name}?socket={self._sockets / 'all.sock'}"
            return ["nbdfuse", "--connections", "1", str(self._export(name)), uri]
        uri = f"nbd+unix:///?socket={self._sockets / name}.sock"
        return ["nbdfuse", "--connections", str(_CONNECTIONS), str(self._export(name)), uri]

    def _has_microseconds(self) -> bool:
        parts = re.findall(r"\d+", self.version)[:2]
        return tuple(int(part) for part in parts) >= _MICROSECONDS_SINCE

    def _delay_us(self, us: float) -> float:
        if self._has_microseconds():
            return us
        return max(0, round((us - _WAY_US) / 1000)) * 1000

    def _delay(self, us: float) -> str:
        delay_us = self._delay_us(us)
        return f"{delay_us / 1000:.0f}ms" if delay_us % 1000 == 0 else f"{delay_us:.0f}us"


def _is_mounted(directory: Path) -> bool:
    return mounts.mount_at(directory) is not None
