"""The emulator's server process: ``python -m pgstow.emulate.server STATE_DIRECTORY [PORT]``.

It leaves its starter's session, says who it is in the pid file under a lock that it keeps while
it lives, and then serves until it is asked to stop.
"""

import os
import sys
from pathlib import Path

from pgstow.emulate.state import StateDirectory, write_identity
from pgstow.host import locks, processes
from pgstow.model.errors import HostError


def main(arguments: list[str]) -> int:
    """Become the server of a state directory; returns at once in the starter's child."""
    directory = StateDirectory(Path(arguments[0]))
    config = directory.config_file.read_text()
    # A second fork gives the server to init, so that no starter has to reap it.
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    descriptor = os.open(directory.pid_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not locks.try_exclusive(descriptor):
        print(f"a server already runs in {directory.path}", file=sys.stderr)
        return 1
    os.umask(0o077)
    for leftover in (directory.control, directory.metrics_file):  # of a server that was killed
        leftover.unlink(missing_ok=True)
    identity = processes.identify(os.getpid())
    assert identity is not None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, write_identity(identity), 0)

    from pgstow import _native

    try:
        if arguments[1:]:
            _serve_metrics(directory, int(arguments[1]))
        _native.serve(config)
    except HostError as error:
        print(error.message, file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)  # into the log, whose last line the starter shows
        return 1
    return 0


def _serve_metrics(directory: StateDirectory, port: int) -> None:
    """Answer with the statistics over HTTP, from a thread that the volumes never wait for."""
    from pgstow.emulate import lateness, metrics
    from pgstow.emulate.control import Control

    control = Control(directory.control)
    port = metrics.start(
        lambda: lateness.read_statistics(directory),
        port,
        lambda: [one.device for one in control.status().volumes],
    )
    directory.metrics_file.write_text(f"{port}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
