"""How a local server was started, so that it can be stopped and started again in the same way."""

import os
import re
import shlex
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgstow.host import programs
from pgstow.host.directories import server_user
from pgstow.model.errors import HostError

Manager = Literal["pg_ctl", "pg_ctlcluster", "systemd"]
_POLL_S = 0.05
_STATUS_LINE = 7  # LOCK_FILE_LINE_PM_STATUS - 1, in src/include/utils/pidfile.h
_STOP_TIMEOUT_S = 600
_START_TIMEOUT_S = 3600  # crash recovery may be long, and giving up would help nobody
_CLUSTER_CONFIG = re.compile(r"/etc/postgresql/([^/]+)/([^/]+)/postgresql\.conf")


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server's own programs and options, its user, its log, its control groups, its keeper."""

    data_directory: str
    pg_ctl: str
    options: tuple[str, ...]
    uid: int
    gid: int
    log: str
    cgroups: tuple[str, ...]
    manager: Manager
    unit: tuple[str, ...] = ()

    @property
    def by_hand(self) -> tuple[str, str]:
        """The commands a person would stop and start it with."""
        if self.manager == "systemd":
            return f"systemctl stop {self.unit[0]}", f"systemctl start {self.unit[0]}"
        if self.manager == "pg_ctlcluster":
            cluster = " ".join(self.unit)
            return f"pg_ctlcluster {cluster} stop -m fast", f"pg_ctlcluster {cluster} start"
        data = shlex.quote(self.data_directory)
        options = shlex.join(self.options)
        start = f"{self.pg_ctl} -D {data} -w start"
        return f"{self.pg_ctl} -D {data} -m fast stop", (
            f"{start} -o {shlex.quote(options)}" if options else start
        )


def find_postmaster(data_directory: str, config_file: str) -> Postmaster:
    """Find out how the running server of a data directory was started."""
    uid, gid = server_user(data_directory)
    if os.geteuid() not in (0, uid):  # who may not look would find no server
        raise HostError(
            f"only root or the owner of {data_directory} may restart its server",
            "run pgstow as one of them",
        )
    pid = running_pid(data_directory)
    if pid is None:
        raise HostError(f"no server runs on {data_directory}", "start it first")
    proc = Path("/proc") / str(pid)
    try:
        program = str((proc / "exe").readlink()).removesuffix(" (deleted)")
        cgroups = (proc / "cgroup").read_text()
        parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError as error:
        raise HostError(f"the server's process {pid} cannot be seen: {error.strerror}") from error
    _refuse_supervised(parent)
    manager, unit = _manager(config_file, cgroups, pid)
    pg_ctl = str(Path(program).parent / "pg_ctl")
    if manager == "pg_ctl" and not Path(pg_ctl).exists():
        raise HostError(f"{pg_ctl} does not exist", "install the server's own pg_ctl there")
    return Postmaster(
        data_directory=data_directory,
        pg_ctl=pg_ctl,
        options=parse_options((Path(data_directory) / "postmaster.opts").read_text()),
        uid=uid,
        gid=gid,
        log=_log(proc, data_directory),
        cgroups=_cgroup_files(cgroups),
        manager=manager,
        unit=unit,
    )


def parse_options(text: str) -> tuple[str, ...]:
    """Read postmaster.opts: the options without the program and the data directory.

    >>> parse_options('/usr/bin/postgres "-D" "/data" "-c" "config_file=/etc/p.conf"')
    ('-c', 'config_file=/etc/p.conf')
    """
    found = re.findall(r' "(.*?)"(?= "|\s*$)', text, flags=re.DOTALL)
    options: list[str] = []
    position = 0
    while position < len(found):
        if found[position] == "-D":
            position += 2
            continue
        if not found[position].startswith("-D"):
            options.append(found[position])
        position += 1
    return tuple(options)


def system_identifier(data_directory: str) -> str | None:
    """The identifier in pg_control, which says whose data directory this is, server up or down."""
    try:
        with (Path(data_directory) / "global/pg_control").open("rb") as file:
            return str(struct.unpack("=Q", file.read(8))[0])
    except (OSError, struct.error):
        return None


def running_pid(data_directory: str) -> int | None:
    """The process of the server on a data directory; a stale lock file is seen through."""
    try:
        pid = abs(int((Path(data_directory) / "postmaster.pid").read_text().split("\n")[0]))
        at_work = os.path.realpath(f"/proc/{pid}/cwd", strict=True)
    except (OSError, ValueError):
        return None
    return pid if at_work == os.path.realpath(data_directory) else None


def is_stopping(data_directory: str) -> bool:
    """Whether a running server is shutting down, by the last line of its lock file.

    One whose lock file is just going is about to be gone.
    """
    try:
        lines = (Path(data_directory) / "postmaster.pid").read_text().split("\n")
    except (OSError, ValueError):
        return True
    return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "stopping"


def stop(postmaster: Postmaster) -> None:
    """Stop the server in fast mode and wait until it is gone."""
    if running_pid(postmaster.data_directory) is None:
        return
    if postmaster.manager == "systemd":
        _run(["systemctl", "stop", *postmaster.unit], _STOP_TIMEOUT_S)
    elif postmaster.manager == "pg_ctlcluster":
        _run(["pg_ctlcluster", *postmaster.unit, "stop", "-m", "fast"], _STOP_TIMEOUT_S)
    else:
        _pg_ctl(postmaster, "stop", "--mode=fast", f"--timeout={_STOP_TIMEOUT_S}")
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while running_pid(postmaster.data_directory) is not None:
        if time.monotonic() > deadline:
            raise HostError("the server did not stop", "see its log")
        time.sleep(_POLL_S)


def start(postmaster: Postmaster) -> None:
    """Start the server as it was started before, and wait until it accepts connections.

    One that is still stopping, as after a stop that was interrupted, is waited for: it will be
    down.
    """
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while running_pid(postmaster.data_directory) is not None:
        if not is_stopping(postmaster.data_directory):
            return
        if time.monotonic() > deadline:
            raise HostError(
                "the server is still shutting down, and must be started afterwards", "see its log"
            )
        time.sleep(_POLL_S)
    if postmaster.manager == "systemd":
        _run(["systemctl", "start", *postmaster.unit], _START_TIMEOUT_S)
    elif postmaster.manager == "pg_ctlcluster":
        command = ["pg_ctlcluster", *postmaster.unit, "start"]
        _run(_in_cgroups(postmaster, command), _START_TIMEOUT_S)
    else:
        options = ["-o", shlex.join(postmaster.options)] if postmaster.options else []
        _pg_ctl(
            postmaster,
            "start",
            f"--log={postmaster.log}",
            f"--timeout={_START_TIMEOUT_S}",
            *options,
        )


def _pg_ctl(postmaster: Postmaster, action: str, *options: str) -> None:
    command = [postmaster.pg_ctl, action, f"--pgdata={postmaster.data_directory}", "--wait"]
    command += [*options, "--silent"]
    if os.geteuid() == 0:
        uid, gid = postmaster.uid, postmaster.gid
        command = ["setpriv", f"--reuid={uid}", f"--regid={gid}", _groups(uid), "--", *command]
    timeout_s = _STOP_TIMEOUT_S if action == "stop" else _START_TIMEOUT_S
    _run(_in_cgroups(postmaster, command), timeout_s + 10)


def _run(command: list[str], timeout_s: float) -> None:
    """Out of the terminal's reach: while it waits, pg_ctl hands a Ctrl-C on to the server."""
    programs.run(command, timeout_s=timeout_s, own_session=True)


def _groups(uid: int) -> str:
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        return "--clear-groups"
    return "--init-groups"


def _in_cgroups(postmaster: Postmaster, command: list[str]) -> list[str]:
    """A command that first joins the control groups: a server keeps its limits over a restart."""
    if not postmaster.cgroups:
        return command
    script = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done 2>/dev/null; shift; exec "$@"'
    return ["sh", "-c", script, "sh", *postmaster.cgroups, "--", *command]


def _cgroup_files(text: str) -> tuple[str, ...]:
    """The cgroup.procs files of the groups in a /proc/PID/cgroup that are not ours already."""
    ours = Path("/proc/self/cgroup").read_text().splitlines()
    files = []
    for line in text.splitlines():
        if line in ours:
            continue
        _, controllers, path = line.split(":", 2)
        names = (
            [controllers.removeprefix("name="), *controllers.split(",")] if controllers else [""]
        )
        roots = [Path("/sys/fs/cgroup") / name for name in names]
        roots += [Path("/sys/fs/cgroup/unified")] if not controllers else []
        for root in roots:
            procs = root / path.lstrip("/") / "cgroup.procs"
            if procs.exists():
                files.append(str(procs))
                break
    return tuple(files)


def _log(proc: Path, data_directory: str) -> str:
    """Where the server's standard error goes, if that is a file that can be opened again."""
    try:
        target = str((proc / "fd/2").readlink())
    except OSError:
        target = ""
    if target.startswith("/") and not target.startswith(("/dev/pts", "/proc")):
        return target.removesuffix(" (deleted)")
    return str(Path(data_directory) / "pgstow-restart.log")


def _manager(config_file: str, cgroups: str, pid: int) -> tuple[Manager, tuple[str, ...]]:
    match = _CLUSTER_CONFIG.fullmatch(config_file)
    if match and programs.find("pg_ctlcluster"):
        return "pg_ctlcluster", (match[1], match[2])
    unit = re.search(r"/([^/\n]+\.service)$", cgroups, flags=re.MULTILINE)
    if unit and Path("/run/systemd/system").exists():
        shown = programs.run(
            ["systemctl", "show", "-p", "MainPID", "--value", unit[1]], timeout_s=10
        )
        if shown.strip() == str(pid):
            return "systemd", (unit[1],)
    return "pg_ctl", ()


def _refuse_supervised(parent: int) -> None:
    """A cluster manager would take our stop for a failure, and fail over."""
    try:
        command = (Path("/proc") / str(parent) / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return
    for name in ("patroni", "pg_autoctl", "repmgrd"):
        if name.encode() in command:
            raise HostError(
                f"the server is run by {name}, which must do the restart",
                f"move pg_wal on each member in turn, by {name}'s own procedure",
            )
