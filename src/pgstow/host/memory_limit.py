"""A memory control group (cgroup v1 or v2), so that the page cache cannot hold a server's data."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgstow.host.mounts import kernel_text
from pgstow.model.errors import HostError
from pgstow.units import Bytes

_REMOVE_TIMEOUT_S = 5.0
_V1_UNLIMITED = 1 << 62  # the kernel's "no limit" is the largest multiple of a page


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One control group. A page of the page cache counts for the group that first touched it.

    Pages that were loaded before, by others or outside, are not counted: restart the server inside
    the group, and :func:`forget_files` what was loaded.
    """

    directory: Path
    version: int

    @classmethod
    def create(cls, name: str, limit_bytes: int) -> "MemoryLimit | str":
        """Make (or change) the group of that name; where it cannot be: the reason, one line.

        A reason, not an error: the caller can do without the limit, and must say so.
        """
        if limit_bytes <= 0 or "/" in name or name in ("", ".", ".."):
            raise ValueError(f"no memory control group {name!r} of {limit_bytes} bytes")
        hierarchy = _find_hierarchy()
        if isinstance(hierarchy, str):
            return hierarchy
        root, version = hierarchy
        limit = cls(root / name, version)
        was_there = limit.directory.exists()
        try:
            limit.directory.mkdir(exist_ok=True)
            limit.set(limit_bytes)
        except OSError as error:
            with suppress(OSError):
                if not was_there:
                    limit.directory.rmdir()
            reason = error.strerror or str(error)
            return f"memory control group {limit.directory} cannot be made: {reason}"
        return limit

    @property
    def procs_file(self) -> Path:
        """Writing a process's id here moves it into the group; its children start inside."""
        return self.directory / "cgroup.procs"

    def set(self, limit_bytes: int) -> None:
        """Change the limit; the kernel gives up cached pages that are too many."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        (self.directory / name).write_text(str(limit_bytes))
        if self.version == 2:
            with suppress(OSError):  # without swap accounting there is no such file
                (self.directory / "memory.swap.max").write_text("0")

    def limit_bytes(self) -> Bytes | None:
        """The limit; None: there is none."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        text = (self.directory / name).read_text().strip()
        return None if text == "max" or int(text) >= _V1_UNLIMITED else Bytes(int(text))

    def kills(self) -> int:
        """How many of the group's processes the kernel has killed because memory ran out."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in (self.directory / name).read_text().splitlines():
            key, value = line.split()
            if key == "oom_kill":
                return int(value)
        return 0  # a kernel before 4.13 does not count them

    def add(self, pid: int) -> None:
        """Move one process into the group; processes that it starts later are inside too."""
        try:
            self.procs_file.write_text(str(pid))
        except OSError as error:
            raise HostError(
                f"process {pid} cannot be moved into {self.directory}: {error.strerror}"
            ) from error

    def pids(self) -> tuple[int, ...]:
        """The processes in the group."""
        return tuple(int(line) for line in self.procs_file.read_text().split())

    def inside(self, command: list[str]) -> list[str]:
        """The command that joins the group and then becomes ``command``."""
        script = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", script, str(self.procs_file), *command]

    def remove(self) -> bool:
        """Remove the group, waiting a little for its last processes to end; whether it is gone."""
        deadline = time.monotonic() + _REMOVE_TIMEOUT_S
        while self.directory.exists():
            try:
                self.directory.rmdir()
            except OSError:  # busy: processes, or pages that are still being written
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
        return True


def _find_hierarchy() -> tuple[Path, int] | str:
    """Where memory control groups are made, and of which version; else why they are not."""
    mounted = parse_cgroup_mounts(kernel_text("/proc/self/mounts"))
    if mounted is None:
        return "no memory control groups are mounted on this machine"
    root, version = Path(mounted[0]), mounted[1]
    if version == 2 and (reason := _enable_memory_v2(root)):
        return reason
    if not os.access(root, os.W_OK):
        return f"memory control groups in {root} may not be made by this user"
    return root, version


def _enable_memory_v2(root: Path) -> str | None:
    """See to it that groups below the root have the memory controller; else the reason."""
    try:
        if "memory" not in (root / "cgroup.controllers").read_text().split():
            return f"the kernel's memory controller is not in {root}/cgroup.controllers"
        control = root / "cgroup.subtree_control"
        if "memory" not in control.read_text().split():
            control.write_text("+memory")
    except OSError as error:
        return f"the memory controller cannot be enabled in {root}: {error.strerror}"
    return None


def parse_cgroup_mounts(text: str) -> tuple[str, int] | None:
    """The mount of the memory controller and its version, from the text of /proc/self/mounts.

    Of a machine with both, version 1 has the controller: version 2 is mounted beside it for names.

    >>> parse_cgroup_mounts("cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0")
    ('/sys/fs/cgroup/memory', 1)
    >>> parse_cgroup_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0")
    ('/sys/fs/cgroup', 2)
    """
    unified = None
    for line in filter(None, text.split("\n")):
        _, mount, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and "memory" in options.split(","):
            return mount, 1
        if kind == "cgroup2":
            unified = mount
    return None if unified is None else (unified, 2)


def forget_files(directory: Path) -> None:
    """Write the files below to their device and drop them from the page cache, and nothing else.

    Whoever reads them next is charged for them. Symbolic links to directories (tablespaces,
    pg_wal) are followed.
    """
    for folder, _, names in os.walk(directory, followlinks=True):
        for name in names:
            with suppress(FileNotFoundError, IsADirectoryError):
                _forget(Path(folder) / name)


def _forget(path: Path) -> None:
    if path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
