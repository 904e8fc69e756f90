"""The whole loop in small: the demo on emulated volumes, and on plain directories without root."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgstow.layout_file import parse_layout

pytestmark = pytest.mark.xdist_group("demo")  # one at a time on a machine
PGSTOW = [sys.executable, "-c", "from pgstow.cli import main; main()"]
SMALL = ["demo", "--scale", "400", "--clients", "8", "--window", "10"]
FIGURES = {
    "layout",
    "tps",
    "latency_ms",
    "commit_ms",
    "wal_sync_us",
    "dollars_month",
    "dollars_per_1000_tps",
}


def _mounts() -> str:
    return "\n".join(
        line for line in Path("/proc/self/mounts").read_text().splitlines() if "pgstow-demo" in line
    )


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Whatever the demo did, nothing of it stays on the machine."""
    yield
    assert _mounts() == ""
    assert not list(Path("/var/tmp").glob("pgstow-demo-*"))
    assert not list(Path("/sys/fs/cgroup").glob("**/pgstow-demo-*/cgroup.procs"))


def _check(summary: dict[str, Any]) -> None:
    for which in ("before", "after", "predicted"):
        assert set(summary[which]) >= FIGURES
        assert summary[which]["tps"] > 0
        assert summary[which]["dollars_per_1000_tps"] > 0
        parse_layout(summary[which]["layout"], which)
    assert summary["before"]["commit_ms"]["p99"] > 0
    assert summary["after"]["wal_sync_us"] > 0
    assert summary["gap_pct"] is None or summary["gap_pct"] >= 0
    assert "tps" in summary["errors_pct"]
    assert summary["seconds"] > 0


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("nothing_left")
def test_demo_that_was_killed_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    """kill -9 while the server runs on emulated volumes; the next clears up, and does it all."""
    first = subprocess.Popen(
        [*PGSTOW, *SMALL, "--out", str(tmp_path / "one")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert first.stderr is not None
    for line in first.stderr:
        if "observing" in line:
            break
    time.sleep(3)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert _mounts() != ""
    out = tmp_path / "two"
    done = subprocess.run(
        [*PGSTOW, *SMALL, "--out", str(out), "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(done.stdout) == summary
    assert summary["volumes"] == "emulated"
    _check(summary)
    page = (out / "report.html").read_text()
    assert "analytics_events" in page
    assert "measured on emulated volumes" in page


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
def test_demo_that_may_not_mount_claims_no_gain(tmp_path: Path) -> None:
    """Without the right to mount: no emulated volumes, the same steps on plain directories."""
    out = tmp_path / "out"
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", *PGSTOW, *SMALL, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "No emulated volumes" in done.stderr
    assert "not a gain" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["volumes"] == "plain directories"
    assert summary["not_emulated_because"]
    _check(summary)
