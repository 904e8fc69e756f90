"""Emulators for the tests: each with a directory of its own, and nothing left of it afterwards."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pgstow import emulate
from pgstow.cli import main as command_line
from pgstow.emulate.control import Compensation
from pgstow.emulate.state import StateDirectory
from pgstow.emulate.volumes import ended_server
from pgstow.host import loops, mounts, processes
from pgstow.model import (
    Device,
    HostCap,
    HostSpec,
    Latency,
    Layout,
    Member,
    Placement,
    Volume,
)
from pgstow.units import GIB, KIB, MIB, Bytes

_measured: list[Compensation] = []


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs root, FUSE and loop devices."""
    for item in items:
        if "privileged" in item.path.parts[-2:-1]:
            item.add_marker(pytest.mark.privileged)
            if "btrfs" in item.name:  # mkfs.btrfs stumbles over what other tests have killed
                item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def _swept() -> None:
    """Take down what a killed command left in the usual places: mkfs.btrfs stumbles over it.

    Once in a run, before its first test: what the tests themselves kill there is theirs.
    """
    with Path(os.environ["PGSTOW_TEST_RUN"], "swept").open("a") as swept:
        fcntl.flock(swept, fcntl.LOCK_EX)
        if swept.tell() > 0:
            return
        usual = emulate.DEFAULT_STATE_DIRECTORY.parent
        seen: set[Path] = set()
        while (ended := ended_server()) and usual in ended.parents and ended not in seen:
            seen.add(ended)
            emulate.down(ended, force=True)
        swept.write("swept")


@pytest.fixture(autouse=True)
def _required(require: Callable[[str], None], request: pytest.FixtureRequest) -> None:
    require("privileged")
    request.getfixturevalue("_swept")


def make_device(volume: Volume, **member: Any) -> Device:
    """A volume's device: 0.5 ms, without limits unless some are given, per member."""
    defaults: dict[str, Any] = {
        "iops": None,
        "bytes_per_second": None,
        "io_unit_bytes": 256 * KIB,
        "latency": Latency(500, 700, 500, 700),
    }
    return Device(
        volume.name,
        volume.total_bytes,
        volume.stripes,
        volume.chunk_bytes,
        Member(**(defaults | member)),
    )


@dataclass
class EmulatorFixture:
    """An emulator under test and the layout it is to have."""

    root: Path
    volumes: dict[str, tuple[Volume, Device]] = field(default_factory=dict)
    cap: HostCap | None = None

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(self.state)

    def mount(self, name: str) -> Path:
        return self.root / "mnt" / name

    def want(self, name: str, *, volume: dict[str, Any] | None = None, **member: Any) -> None:
        """Add or change a volume of the layout."""
        defaults: dict[str, Any] = {
            "name": name,
            "type": "gp3",
            "size_bytes": Bytes(GIB),
            "mount": str(self.mount(name)),
        }
        wanted = Volume(**(defaults | (volume or {})))
        self.volumes[name] = wanted, make_device(wanted, **member)

    def layout(self) -> Layout:
        volumes = tuple(volume for volume, _ in self.volumes.values())
        return Layout(HostSpec(), volumes, Placement(data=volumes[0].name, wal=volumes[0].name))

    def up(self, *, calibrate: bool = False, **options: Any) -> emulate.EmulatorStatus:
        """Make the volumes. The machine is measured once for all tests, unless they ask for it."""
        devices = [device for _, device in self.volumes.values()]
        if _measured and not calibrate:
            options.setdefault("compensation", _measured[0])
        status = emulate.up(self.layout(), devices, self.cap, state_directory=self.state, **options)
        if not _measured and status.compensation is not None:
            _measured.append(status.compensation)
        return status

    def plan(self, **options: Any) -> list[str]:
        devices = [device for _, device in self.volumes.values()]
        actions = emulate.plan_up(
            self.layout(), devices, self.cap, state_directory=self.state, **options
        )
        return [action.kind for action in actions]

    def server(self) -> processes.ProcessIdentity:
        identity = self.directory.server()
        assert identity is not None
        return identity

    def kill_server(self) -> None:
        identity = self.server()
        os.kill(identity.pid, signal.SIGKILL)
        assert processes.wait_until_gone(identity, timeout_s=10)

    def leftovers(self) -> list[str]:
        """Mounts, loop devices and processes that are still there."""
        left = [mount.path for mount in mounts.mounts() if mount.path.startswith(str(self.root))]
        left += [loop.device for loop in loops.in_directory(self.directory.mountpoint)]
        identity = self.directory.server()
        if identity is not None and processes.is_running(identity):
            left.append(f"pid {identity.pid}")
        return left


@pytest.fixture
def emulator() -> Iterator[EmulatorFixture]:
    """An emulator that is not up yet; taken down by force at the end."""
    root = Path(tempfile.mkdtemp(prefix="pgstow-emulator-"))
    made = EmulatorFixture(root)
    yield made
    emulate.down(made.state, force=True)
    assert made.leftovers() == []
    shutil.rmtree(root)


@pytest.fixture
def command(
    emulator: EmulatorFixture, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``command("emulate", "status")``: on the test's own emulator, within this process."""
    monkeypatch.setenv("PGSTOW_EMULATOR", str(emulator.state))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["pgstow", *arguments])
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                command_line()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        status, printed = int(ended.value.code or 0), capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, printed.out, printed.err)

    return run


@pytest.fixture
def fio() -> Callable[..., dict[str, Any]]:
    """``fio(path, rw="randread", bs="8k", iodepth=32)``: the job's JSON, of direct I/O."""
    if shutil.which("fio") is None:
        pytest.skip("needs fio: apt-get install fio")

    def run(*paths: Path, seconds: float = 2, size: int = 128 * MIB, **options: Any) -> Any:
        common: dict[str, Any] = {
            "direct": 1,
            "ioengine": "libaio",
            "time_based": 1,
            "runtime": seconds,
            "ramp_time": 1,
            "size": size,
            "group_reporting": 1,
            "output-format": "json",
            "fallocate": "none",
        }
        arguments = [f"--{name}={value}" for name, value in (common | options).items()]
        jobs = [part for n, path in enumerate(paths) for part in _job(n, path)]
        done = subprocess.run(
            ["fio", *arguments, *jobs], capture_output=True, text=True, check=True, timeout=120
        )
        return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]

    return run


def _job(number: int, path: Path) -> list[str]:
    return [f"--name=job{number}", f"--filename={path / 'fio.dat'}"]
