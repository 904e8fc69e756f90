"""Start, find and end the emulator's server."""

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict

from pgstow.emulate.control import Control, ServerGoneError, ServerStatus
from pgstow.emulate.state import StateDirectory, write_atomically
from pgstow.host import mounts, processes
from pgstow.model import HostCap
from pgstow.model.errors import HostError, UserError

_START_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 3.0
_END_TIMEOUT_S = 3.0
_POLL_S = 0.02
_SEED = 1  # of the latencies drawn: the same sequence at every start


def is_alive(directory: StateDirectory) -> bool:
    """Whether the server's process is there, answering or not."""
    identity = directory.server()
    return identity is not None and processes.is_running(identity)


def running(directory: StateDirectory) -> ServerStatus | None:
    """The server's status; None where no server runs, or it does not answer."""
    if not is_alive(directory):
        return None
    try:
        return Control(directory.control, timeout_s=_ANSWER_TIMEOUT_S).status()
    except ServerGoneError:
        return None


def metrics_port(directory: StateDirectory) -> int | None:
    """The port on loopback where the server answers with its metrics; None: it does not."""
    try:
        return int(directory.metrics_file.read_text())
    except (FileNotFoundError, ValueError):  # none, or it is about to be written
        return None


def check_metrics_port(port: int) -> None:
    """Refuse a port that is taken, before a server is started to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server will
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            message = f"port {port} of 127.0.0.1 cannot be had for metrics: {error.strerror}"
            raise UserError(message, "choose another, or 0 for any") from error


def start(
    directory: StateDirectory, host_cap: HostCap | None, metrics_port: int | None = None
) -> ServerStatus:
    """Start a server without volumes and wait until it answers.

    ``metrics_port`` is where it is to answer with its statistics over HTTP; 0 is any.
    """
    directory.mountpoint.mkdir(parents=True, exist_ok=True)
    config: dict[str, object] = {
        "mountpoint": str(directory.mountpoint),
        "control": str(directory.control),
        "host": None if host_cap is None else asdict(host_cap),
        "seed": _SEED,
        "volumes": [],
    }
    write_atomically(directory.config_file, json.dumps(config, indent=2).encode())
    with directory.log_file.open("wb") as log:
        # It returns at once: the server itself is this child's child, in a session of its own.
        try:
            subprocess.run(
                [
                    *(sys.executable, "-m", "pgstow.emulate.server", str(directory.path)),
                    *([] if metrics_port is None else [str(metrics_port)]),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                timeout=_START_TIMEOUT_S,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise _not_started(directory) from error
    return _wait_until_answering(directory)


def _wait_until_answering(directory: StateDirectory) -> ServerStatus:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        status = running(directory)
        if status is not None and mounts.mount_at(directory.mountpoint) is not None:
            return status
        identity = directory.server()
        if identity is not None and not processes.is_running(identity):
            raise _not_started(directory)
        time.sleep(_POLL_S)
    raise _not_started(directory)


def _not_started(directory: StateDirectory) -> HostError:
    return HostError(
        f"the emulator's server did not start: {last_line(directory) or 'it printed nothing'}",
        f"see {directory.log_file}",
    )


def last_line(directory: StateDirectory) -> str | None:
    """The last thing the server printed; None: nothing."""
    try:
        lines = directory.log_file.read_text(errors="replace").strip().splitlines()
    except OSError:
        return None
    return lines[-1] if lines else None


def stop(directory: StateDirectory, *, ask: bool = True) -> None:
    """End the server if it runs: by request first, then by signals to that process."""
    identity = directory.server()
    if identity is None or not processes.is_running(identity):
        return
    if ask:
        with suppress(HostError):
            Control(directory.control, timeout_s=_ANSWER_TIMEOUT_S).shutdown()
            if processes.wait_until_gone(identity, timeout_s=_END_TIMEOUT_S):
                return
    if not processes.end(identity, timeout_s=_END_TIMEOUT_S):
        raise HostError(
            f"the emulator's server (pid {identity.pid}) does not end",
            f"find out what it waits for; its log is {directory.log_file}",
        )
