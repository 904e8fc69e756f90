"""Starting a server by its own pg_ctl, for which a script stands in that notes how it was run."""

import os
from pathlib import Path

import pytest

from pgstow.host import postmaster
from pgstow.host.postmaster import Postmaster

NOTES = """#!/bin/sh
echo "$1" $(cut -d' ' -f6 /proc/$$/stat) > {path}
"""


def stand_in(directory: Path) -> Postmaster:
    pg_ctl, data = directory / "pg_ctl", str(directory)
    pg_ctl.write_text(NOTES.format(path=directory / "noted"))
    pg_ctl.chmod(0o755)
    user = os.geteuid(), os.getegid()
    return Postmaster(data, str(pg_ctl), (), *user, f"{data}/log", (), "pg_ctl")


def noted(directory: Path) -> tuple[str, int]:
    action, session = (directory / "noted").read_text().split()
    return action, int(session)


def test_a_terminals_ctrl_c_does_not_reach_a_start(tmp_path: Path) -> None:
    """pg_ctl would hand it on to the server, which would then stop."""
    postmaster.start(stand_in(tmp_path))
    action, session = noted(tmp_path)
    assert action == "start"
    assert session != os.getsid(0)


def test_a_lock_file_that_goes_between_two_looks_is_no_running_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter((os.getpid(), None))
    monkeypatch.setattr(postmaster, "running_pid", lambda _: next(found))
    postmaster.start(stand_in(tmp_path))
    assert noted(tmp_path)[0] == "start"
