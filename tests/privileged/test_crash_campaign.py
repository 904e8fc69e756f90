"""The crash test on emulated volumes: it passes, and it notices a server that does not flush."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgstow.emulate.crash_test import make_plan, run
from pgstow.emulate.crash_test.amcheck import find_checker
from pgstow.host import loops, mounts
from pgstow.model.errors import HostError


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for the volumes that the server's user can enter; nothing may be left in it."""
    try:
        find_checker()
    except HostError as error:
        pytest.skip(str(error))
    root = Path(tempfile.mkdtemp(prefix="pgstow-crash-"))
    root.chmod(0o755)
    yield root
    assert [mount.path for mount in mounts.mounts() if mount.path.startswith(str(root))] == []
    assert loops.in_directory(root / "state/volumes") == ()
    shutil.rmtree(root)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kinds", "cuts"),
    [
        (("--wal", "apart", "--loss", "subset,torn"), 6),
        pytest.param((), 20, marks=pytest.mark.nightly),
    ],
    ids=["six", "every"],
)
def test_nothing_acknowledged_is_lost_in_any_combination(
    place: Path, tmp_path: Path, kinds: tuple[str, ...], cuts: int
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from pgstow.cli import main; main()"]
    options = ["--quick", "--json", "--state-dir", str(place), "--out", str(out), *kinds]
    done = subprocess.run(
        [*command, "emulate", "crash-test", *options], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["failures"] == []
    assert done.returncode == 0
    assert result["counted"] >= result["wanted"] == cuts
    assert result["controls_that_lost"] >= (2 if kinds else 4)
    assert all(row["transfers"] > 0 for row in result["combinations"])
    assert any(row["lost_writes"] > 0 for row in result["combinations"])
    assert len((out / "cuts.jsonl").read_text().splitlines()) == len(result["cuts"])


@pytest.mark.nightly  # the six cuts have controls of their own, which lose what they should
def test_a_server_that_does_not_flush_is_found_out(place: Path, tmp_path: Path) -> None:
    plan = make_plan(
        filesystems=["xfs"],
        wal=["together"],
        losses=["all"],
        cuts=1,
        seed=3,
        quick=True,
        settings=[("fsync", "off")],
    )
    result = run(plan, output=tmp_path / "out", directory=place)
    assert not result.passed
    assert any("xfs, WAL together, all" in failure for failure in result.failures)
    assert not all(row.is_clean for row in result.combinations)
    assert list((tmp_path / "out").glob("cut-*.log"))
