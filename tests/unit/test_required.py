"""What holds for every test run: what is required, and what the tests' programs inherit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
INI = "[pytest]\nmarkers =\n  server: x\n  privileged: x\n  browser: x\n  nightly: x\n"
TESTS = """
import pytest

@pytest.mark.privileged
def test_marked():
    pytest.skip("no FUSE here")

@pytest.mark.privileged
@pytest.mark.skipif(True, reason="not on Tuesdays")
def test_by_condition():
    pass

@pytest.mark.privileged
@pytest.mark.xfail
def test_expected_failure():
    assert False

def test_unmarked():
    pytest.skip("never mind")
"""


def run(directory: Path, required: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, directory)
    (directory / "pytest.ini").write_text(INI)
    (directory / "test_some.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(directory)],
        env=os.environ | {"PGSTOW_REQUIRE": required, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("required", ["", "server,browser"])
def test_skips_are_skips_where_not_required(tmp_path: Path, required: str) -> None:
    done = run(tmp_path, required)
    assert done.returncode == 0, done.stdout
    assert "3 skipped, 1 xfailed" in done.stdout
    assert "no FUSE here" in done.stdout


def test_skips_fail_where_required(tmp_path: Path) -> None:
    done = run(tmp_path, "privileged")
    assert done.returncode == 1
    assert "1 failed, 1 skipped, 1 xfailed, 1 error" in done.stdout
    assert "PGSTOW_REQUIRE has privileged, but: Skipped: no FUSE here" in done.stdout


def test_a_module_that_skips_itself_fails_where_required(tmp_path: Path) -> None:
    (tmp_path / "privileged").mkdir()
    (tmp_path / "privileged/test_module.py").write_text(
        "import pytest\npytest.skip('no module', allow_module_level=True)\n"
    )
    assert run(tmp_path, "").returncode == 0
    done = run(tmp_path, "privileged")
    assert "no module" in done.stdout
    assert "1 error" in done.stdout


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "privilegeds").returncode == 4


CHILD = """
import subprocess, sys
PROGRAM = "import signal as s; print([s.getsignal(n) == s.SIG_IGN for n in (s.SIGINT, s.SIGQUIT)])"

def test_a_program_can_be_interrupted():
    assert subprocess.check_output([sys.executable, "-c", PROGRAM]) == b"[False, False]\\n"
"""


def test_programs_can_be_interrupted_in_a_scripts_background_job(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_some.py").write_text(CHILD)
    pytest_of = f"{sys.executable} -m pytest -p no:cacheprovider {tmp_path}"
    done = subprocess.run(["sh", "-c", f"trap '' INT QUIT; {pytest_of}"], check=False)
    assert done.returncode == 0


NIGHTLY = """
import pytest

@pytest.mark.nightly
@pytest.mark.parametrize("number", [1, 2, 3])
def test_long(number):
    pass

def test_short():
    pass
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_what_is_left_to_the_night_is_counted(tmp_path: Path, processes: tuple[str, ...]) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_some.py").write_text(NIGHTLY)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not nightly"]
    done = subprocess.run(
        [*command, *processes, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "3 longer tests left to make nightly" in done.stdout
    assert "1 passed" in done.stdout.splitlines()[-1]


def test_what_is_begun_first_is_there(pytestconfig: pytest.Config) -> None:
    conftest = pytestconfig.pluginmanager.get_plugin(str(CONFTEST))
    assert conftest is not None
    assert [one for one in conftest.LONGEST if not (CONFTEST.parent / one).is_file()] == []
