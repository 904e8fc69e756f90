"""qemu-storage-daemon with throttle groups, through its FUSE exports and loop devices."""

import json
from pathlib import Path

from pgstow.emulate.bench import subject
from pgstow.emulate.bench.peer_volumes import PeerVolumes
from pgstow.emulate.bench.subject import MountedVolumes
from pgstow.emulate.bench.trials import IO_UNIT_BYTES, NO_LATENCY, Target
from pgstow.host import mounts, programs
from pgstow.model.errors import HostError

PROGRAM = "qemu-storage-daemon"
PROGRAMS = (PROGRAM,)
_VERSION_TIMEOUT_S = 10.0


class QemuStorageDaemon:
    """One daemon for all volumes: a throttle group for each, and one for the host behind them."""

    name = "qemu"

    def __init__(self, volumes: PeerVolumes) -> None:
        text = programs.run([PROGRAM, "--version"], timeout_s=_VERSION_TIMEOUT_S)
        self.version = text.split()[2]
        self._volumes = volumes
        self._aio = "io_uring"

    def bring_up(self, target: Target) -> MountedVolumes:
        """Start the daemon with the target's figures."""
        names = subject.volume_names(target.volumes)
        self._volumes.prepare(names)
        exports = [self._export(name) for name in names]
        for export in exports:
            export.parent.mkdir(parents=True, exist_ok=True)
            export.touch()  # what it mounts over
        try:
            self._start(target, exports)
        except HostError:
            if self._aio == "threads":
                raise
            self._volumes.stop()
            self._aio = "threads"  # this machine or build has no io_uring
            self._start(target, exports)
        for name, export in zip(names, exports, strict=True):
            self._volumes.attach(name, export)
        return self._volumes.mounted(names)

    def _start(self, target: Target, exports: list[Path]) -> None:
        def is_ready() -> bool:
            return all(mounts.mount_at(export) is not None for export in exports)

        self._volumes.start(self._arguments(target), is_ready)

    def take_down(self) -> None:
        """End the daemon."""
        self._volumes.stop()

    def cannot(self, target: Target) -> tuple[str, ...]:
        """It limits operations and bytes and knows no latency."""
        return () if target.latency == NO_LATENCY else ("delay",)

    def commands(self, target: Target) -> tuple[str, ...]:
        """The daemon's command line."""
        return (" ".join(self._arguments(target)),)

    def _export(self, name: str) -> Path:
        return self._volumes.exports / self.name / name / "disk"

    def _arguments(self, target: Target) -> list[str]:
        cap = target.host_cap
        host = None if cap is None else _limits(cap.iops, cap.bytes_per_second)
        limits = _limits(target.iops, target.bytes_per_second)
        arguments = [PROGRAM]
        if host:
            arguments += _group("host", host)
        for name in subject.volume_names(target.volumes):
            node, image = f"file-{name}", self._volumes.images / name
            arguments += [
                "--blockdev",
                f"driver=file,node-name={node},filename={image},aio={self._aio}",
            ]
            if host:
                arguments += _throttle(f"host-{name}", "host", node)
                node = f"host-{name}"
            if limits:
                arguments += _group(f"limits-{name}", limits)
                arguments += _throttle(name, f"limits-{name}", node)
                node = name
            arguments += [
                "--export",
                f"type=fuse,id=export-{name},node-name={node},"
                f"mountpoint={self._export(name)},writable=on,allow-other=off",
            ]
        return arguments


def _limits(iops: float | None, bytes_per_second: float | None) -> dict[str, int]:
    """Parameters of a throttle group; an operation counts once for each of its units."""
    found: dict[str, int] = {}
    if iops is not None:
        found |= {"iops-total": round(iops), "iops-size": IO_UNIT_BYTES}
    if bytes_per_second is not None:
        found["bps-total"] = round(bytes_per_second)
    return found


def _group(name: str, limits: dict[str, int]) -> list[str]:
    group = {"qom-type": "throttle-group", "id": name, "limits": limits}
    return ["--object", json.dumps(group, separators=(",", ":"))]


def _throttle(node: str, group: str, file: str) -> list[str]:
    return ["--blockdev", f"driver=throttle,node-name={node},throttle-group={group},file={file}"]
