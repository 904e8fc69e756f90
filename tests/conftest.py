"""Tests by what they need: what is missing skips aloud, and fails where it must be there.

A test says what it needs by its marker (``server``, ``lab``, ``browser``) and skips with the
reason where it does not find it. ``PGSTOW_REQUIRE=lab,server,browser`` turns such a skip into a
failure: a test run that must prove something cannot pass without having tried.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# How long a value takes says more of the machine than of the code.
hypothesis.settings.register_profile("pgstow", deadline=None)
hypothesis.settings.load_profile("pgstow")
KINDS = frozenset({"lab", "server", "browser"})
_nightly: set[str] = set()  # tests that this run leaves out


def required() -> frozenset[str]:
    """The kinds of tests that may not be skipped."""
    names = {name.strip() for name in os.environ.get("PGSTOW_REQUIRE", "").split(",")} - {""}
    unknown = names - KINDS
    if unknown:
        raise pytest.UsageError(f"PGSTOW_REQUIRE has {sorted(unknown)}; known are {sorted(KINDS)}")
    return frozenset(names)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs some of the tests of another, which started it."""
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    required()  # a misspelt name must not pass for "nothing is required"
    os.environ["XDG_DATA_HOME"] = "/nonexistent"  # the catalog is the shipped one
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # As in a script's background job; the programs under test would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not is_worker(config):
        shared = tempfile.mkdtemp(prefix="pgstow-tests-")
        Path(shared).chmod(0o755)  # servers' users read from it
        os.environ["PGSTOW_TEST_RUN"] = shared  # what the processes of a run have in common


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        shutil.rmtree(os.environ.pop("PGSTOW_TEST_RUN", ""), ignore_errors=True)


def pytest_deselected(items: list[pytest.Item]) -> None:
    _nightly.update(item.nodeid for item in items if item.get_closest_marker("nightly"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if is_worker(session.config):
        session.config.workeroutput["nightly"] = sorted(_nightly)  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _nightly.update(getattr(node, "workeroutput", {}).get("nightly", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out for its length is said: nobody takes it for tried."""
    if _nightly:
        terminalreporter.write_line(f"{len(_nightly)} longer tests left to make nightly")


@pytest.fixture
def require() -> Callable[[str], None]:
    """``require("lab")``: skip where emulated volumes cannot be made, or fail: see above."""

    def check(kind: str) -> None:
        assert kind == "lab", f"no check for {kind}: skip with the reason, the marker does the rest"
        from pgstow.emulate import check_requirements

        missing = check_requirements()
        if missing:
            pytest.skip("; ".join(f"{warning.message} ({warning.remedy})" for warning in missing))

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    kinds = {marker.name for marker in item.iter_markers()} & required()
    if report.skipped and kinds and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"PGSTOW_REQUIRE has {', '.join(sorted(kinds))}, but: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole module that skips itself has no markers yet: its directory says what it needs."""
    report = yield
    kinds = set(collector.path.parts) & required()
    if report.skipped and kinds:
        report.outcome = "failed"
        report.longrepr = f"PGSTOW_REQUIRE has {', '.join(sorted(kinds))}: {report.longrepr}"
    return report
