"""Families of processes: found, killed by identity, reaped."""

import subprocess
import sys
import time

from pgstow.host import processes

# A parent with a child; both sleep until they are killed.
_FAMILY = "import os, time; os.fork(); time.sleep(60)"


def test_a_family_is_killed_and_reaped() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _FAMILY])
    try:
        deadline = time.monotonic() + 30
        while len(family := processes.family(parent.pid)) < 2:
            assert time.monotonic() < deadline
        assert family[0].pid == parent.pid
        with processes.adopting_orphans():
            assert processes.kill(family, timeout_s=30) == ()
            assert not any(processes.is_running(process) for process in family)
            assert processes.wait_until_reaped(family, timeout_s=30)
    finally:
        parent.kill()
        parent.wait()
    assert processes.family(parent.pid) == ()


def test_a_process_that_has_another_ones_pid_is_not_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        identity = processes.identify(other.pid)
        assert identity is not None
        stranger = processes.ProcessIdentity(other.pid, identity.start_ticks + 1, identity.boot_id)
        assert processes.kill([stranger], timeout_s=1) == ()
        assert processes.is_running(identity)
        assert other.stdin is not None
        other.stdin.close()
