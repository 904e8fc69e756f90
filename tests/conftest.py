"""Tests by what they need: what is missing skips aloud, and fails where it must be there.

A test says what it needs by its marker (``server``, ``privileged``, ``browser``) and skips with the
reason where it does not find it. ``PGSTOW_REQUIRE=privileged,server,browser`` turns such a skip
into a failure: a test run that must prove something cannot pass without having tried.
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
KINDS = frozenset({"privileged", "server", "browser"})
_SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
_nightly: set[str] = set()  # tests that this run leaves out
# Files whose tests take longest, of those that wait and those that compute in turn. They are begun
# first, so that no process is busy long after the others.
LONGEST = (
    "server/test_loop.py",
    "unit/test_plan_laws.py",
    "privileged/test_demo.py",
    "unit/test_plan_rules.py",
    "privileged/test_crash_campaign.py",
    "unit/test_plan_command.py",
    "server/test_apply_campaign.py",
    "unit/test_planning_baselines.py",
    "privileged/test_studies.py",
    "unit/test_planning.py",
    "privileged/test_emulate_commands.py",
    "unit/test_plan_response.py",
    "server/test_apply_interrupted.py",
    "unit/test_plan_instances.py",
    "unit/test_apply_faults.py",
    "unit/test_plan_shown.py",
)


def required() -> frozenset[str]:
    """The kinds of tests that may not be skipped."""
    names = {name.strip() for name in os.environ.get("PGSTOW_REQUIRE", "").split(",")} - {""}
    names = {"privileged" if name == "lab" else name for name in names}  # as it was called before
    unknown = names - KINDS
    if unknown:
        raise pytest.UsageError(f"PGSTOW_REQUIRE has {sorted(unknown)}; known are {sorted(KINDS)}")
    return frozenset(names)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs some of the tests of another, which started it."""
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    required()  # a misspelt name must not pass for "nothing is required"
    # several processes share the processors already; threads that wait for work would spin
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["XDG_DATA_HOME"] = "/nonexistent"  # the catalog is the shipped one
    # In a script's background job they are ignored; the programs under test would inherit that.
    for number, usual in _SIGNALS.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
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


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """A file of unit tests is a group, for they share what they look at; the longest come first."""
    for item in items:
        if "unit" in item.path.parts[-2:-1] and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    yield
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get("/".join(item.path.parts[-2:]), len(places)))


@pytest.fixture
def require() -> Callable[[str], None]:
    """``require("privileged")``: skip where emulated volumes cannot be made, or fail: see above."""

    def check(kind: str) -> None:
        assert kind == "privileged", (
            f"no check for {kind}: skip with the reason, the marker does the rest"
        )
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
