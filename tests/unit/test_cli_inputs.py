"""What a person can write wrong ends in one line that names it, with status 2, and never inside."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import report_samples
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstow.cli import main as cli_main
from pgstow.cli.main import app
from pgstow.emulate.faults import Slow
from pgstow.emulate.injection import parse_fault
from pgstow.layout_file import parse_layout
from pgstow.load_file import parse_load
from pgstow.model.errors import UserError
from pgstow.units import parse_duration, parse_rate, parse_size
from pgstow.workspace import Workspace

HEAD = '[host]\nplatform = "ec2"\n'
VOLUME = '[volumes.data]\ntype = "gp3"\nsize = "20GiB"\nmount = "/data"\n'
POSTGRES = '[postgres]\ndata = "data"\n'
LAYOUT = HEAD + VOLUME + POSTGRES
LONG = "x" * 300

BAD_LAYOUTS = {
    "lists too deep": LAYOUT + "x = " + "[" * 2000 + "]" * 2000,
    "tables too deep": LAYOUT + "[" + "a." * 2000 + "a]\n",
    "settings too deep": LAYOUT + "settings = " + "{a=" * 40 + "1" + "}" * 40,
    "a number of 10,000 digits": HEAD + VOLUME + f"iops = {'9' * 10_000}\n" + POSTGRES,
    "a number of 400 digits": HEAD + VOLUME + f"iops = {'9' * 400}\n" + POSTGRES,
    "a setting of 10,000 digits": LAYOUT + f"[postgres.settings]\nwork_mem = {'9' * 10_000}\n",
    "a size of 5,000 digits": LAYOUT.replace("20GiB", "9" * 5000 + "GiB"),
    "a size of 300 digits": LAYOUT.replace("20GiB", "9" * 300 + "GiB"),
    "a throughput of 400 digits": HEAD + VOLUME + f'throughput = "{"9" * 400}MiB/s"\n' + POSTGRES,
    "null in a mount": LAYOUT.replace('"/data"', '"/da\\u0000ta"'),
    "null in a location": LAYOUT + '[tablespaces.x]\nvolume = "data"\nlocation = "/a\\u0000b"\n',
    "null in a key": LAYOUT + '[tablespaces."a\\u0000b"]\nvolume = "data"\n',
    "null in an option": HEAD + VOLUME + 'mount_options = ["a\\u0000b"]\n' + POSTGRES,
    "a mount in /proc": LAYOUT.replace('"/data"', '"/proc/x"'),
    "a mount in /sys": LAYOUT.replace('"/data"', '"/data/../sys//fs/x"'),
    "a mount in //proc": LAYOUT.replace('"/data"', '"//proc/x"'),
    "a name too long": LAYOUT.replace('"/data"', f'"/{LONG}"'),
    "a path too long": LAYOUT.replace('"/data"', '"' + "/data" * 1000 + '"'),
    "nan": HEAD + VOLUME + "iops = nan\n" + POSTGRES,
    "infinity": HEAD + VOLUME + "burst_credits = inf\n" + POSTGRES,
}


def ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str]:
    """Exit status and standard error of a command line."""
    monkeypatch.setattr(sys, "argv", ["pgstow", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli_main()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code, capsys.readouterr().err


def is_one_line(error: str) -> bool:
    return error.startswith("pgstow: ") and error.count("\n") == 1 and "internal" not in error


@pytest.mark.parametrize("text", BAD_LAYOUTS.values(), ids=BAD_LAYOUTS)
def test_a_layout_that_cannot_be_is_the_users_mistake(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_layout(text, "x.toml")
    assert str(error.value).startswith("x.toml: ")
    assert len(str(error.value)) < 300


def test_the_same_layout_without_the_mistake_is_read() -> None:
    assert parse_layout(LAYOUT, "x.toml").volume("data").mount == "/data"
    hostile = LAYOUT + '[tablespaces.x]\nvolume = "data"\nrelations = ["a.b.\\"c\\u001b\\nd\\""]\n'
    assert parse_layout(hostile, "x.toml").tablespaces[0].relations[0].name == "c\x1b\nd"


@pytest.mark.parametrize("text", ["x = " + "[" * 2000 + "]" * 2000, f"step = {'9' * 10_000}"])
def test_other_files_have_the_same_limits(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        parse_load(text, "load.toml")
    file = tmp_path / "faults.toml"
    file.write_text(text)
    from pgstow.emulate import read_schedule

    with pytest.raises(UserError, match=r"faults\.toml"):
        read_schedule(file)


@pytest.mark.parametrize("digits", [30, 300, 5000])
@pytest.mark.parametrize(
    ("parse", "unit"), [(parse_size, "GiB"), (parse_rate, "MiB/s"), (parse_duration, "y")]
)
def test_a_quantity_beyond_all_measure_is_refused(parse, unit: str, digits: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="more than any") as error:
        parse("9" * digits + unit)
    assert len(str(error.value)) < 150


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -1.0, 1e7])
def test_a_fault_has_a_factor_that_can_be(factor: float) -> None:
    with pytest.raises(UserError, match="factor"):
        parse_fault({"kind": "slow", "factor": factor}, "--")
    assert parse_fault({"kind": "slow", "factor": 2.5}, "--") == Slow(factor=2.5)


def _floats() -> list[tuple[tuple[str, ...], str]]:
    """Every option of every command that takes a number with a point."""
    found = []

    def descend(command: Any, path: tuple[str, ...]) -> None:
        for key, child in getattr(command, "commands", {}).items():
            descend(child, (*path, key))
        for one in command.params:
            if one.type_descriptor.annotation is float:
                found.append((path, one.opts[0]))

    descend(typer.main.get_command(app), ())
    return found


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("path", "option"), _floats(), ids=str)
def test_no_number_is_nan_or_infinite(
    path: tuple[str, ...],
    option: str,
    value: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, error = ended(capsys, monkeypatch, *path, f"{option}={value}")
    assert status == 2
    assert is_one_line(error)
    # What else is missing may be said first; with it all given, the number is what is wrong.
    assert any(one in error for one in ("finite", "Input should be", "Missing"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("limits", "off"),
        ("down",),
        ("set", "data", "--iops", "3000"),
        ("volatile", "on"),
        ("fault", "list"),
        ("fault", "stall"),
        ("fault", "clear"),
        ("stats",),
        ("trace", "stop"),
    ],
)
def test_a_state_directory_that_is_a_file_is_the_users_mistake(
    arguments: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "file"
    file.touch()
    status, error = ended(capsys, monkeypatch, "emulate", *arguments, "--state-dir", str(file))
    assert status == 2
    assert is_one_line(error)


NAMES = {"empty": "", "over-long": LONG, "directory": "/", "below a file": "file/x", "root": "/.."}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize(
    "arguments",
    [
        ("emulate", "replay", "NAME"),
        ("emulate", "replay", "NAME", "--layout", "layout.toml"),
        ("emulate", "replay", "trace.csv", "--layout", "NAME"),
        ("emulate", "up", "NAME", "--dry-run"),
        ("emulate", "fault", "schedule", "NAME", "--check"),
        ("emulate", "forecast", "layout.toml", "--load", "NAME"),
        ("emulate", "forecast", "NAME", "--load", "load.toml"),
        ("explain", "--workspace", "NAME"),
        ("plan", "--workspace", "NAME"),
        ("report", "--workspace", "NAME"),
        ("bench", "show", "--workspace", "NAME"),
        ("bench", "run", "NAME", "--dry-run"),
        ("observe", "--layout", "NAME"),
        ("observe", "--workspace", "NAME"),
        ("diff", "NAME"),
        ("apply", "NAME", "--dry-run"),
    ],
)
def test_a_file_that_cannot_be_is_the_users_mistake(
    arguments: tuple[str, ...],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "layout.toml").write_text(LAYOUT)
    (tmp_path / "load.toml").write_text('[volumes.data]\nphases = [{duration="1h", iops=5}]\n')
    written = [name if one == "NAME" else one for one in arguments]
    status, error = ended(capsys, monkeypatch, *written)
    assert status == 2, error
    assert is_one_line(error)


WORDS = st.sampled_from(
    [
        "", "-", "--", "--json", "--debug", "--help", "nan", "inf", "-1", "1e400", "0", "x" * 300,
        "\x1b[31m", "\udcff", "layout.toml", "load.toml", "/proc/x", "4x", "5ms", "9" * 400,
        "--workspace", "--layout", "--load", "--tps", "--out", "--pin", "a=b", "help",
    ]
)  # fmt: skip
SAFE = (
    ("explain",), ("plan",), ("diff", "layout.toml"), ("verify",), ("catalog",),
    ("catalog", "price", "gp3"), ("catalog", "show"), ("catalog", "anatomy"), ("bench", "show"),
    ("bench", "run", "--dry-run"), ("bench", "list"), ("emulate", "replay"),
    ("emulate", "forecast", "layout.toml"), ("emulate", "up", "--dry-run"), ("report",),
    ("emulate", "fault", "schedule", "--check"), ("nosuch",), (),
)  # fmt: skip


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(command=st.sampled_from(SAFE), words=st.lists(WORDS, max_size=4))
def test_a_random_command_line_never_ends_inside(
    command: tuple[str, ...],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    (tmp_path / "layout.toml").write_text(LAYOUT)
    status, error = ended(capsys, monkeypatch, *command, *words)
    assert status in (0, 1, 2)
    assert "internal error" not in error
    assert "--debug" in words or "Traceback" not in error
    assert all(one == "\n" or one.isprintable() for one in error)


def test_a_trace_whose_companion_is_nested_too_deep(tmp_path: Path) -> None:
    from pgstow.trace_file import read_recording

    for text in ("[" * 100_000, json.dumps({"version": 1})):
        (tmp_path / "t.csv.json").write_text(text)
        with pytest.raises(UserError):
            read_recording(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "--tps", "1e308"), "is not a rate"),
        (("plan", "--out", "no/such/place.toml"), "there is no directory no/such"),
        (("plan", "--out", "."), "is a directory"),
        (("plan", "--out", LONG), "File name too long"),
        (("explain", "--beside", "data=99999999MiB/s"), "more than any volume does"),
        (("observe", "--commit-probe", "-1"), "commit-probe"),
        (("verify", "--commit-probe", "100000"), "commit-probe"),
        (("bench", "run", "wal-split", "--dry-run", "--blocks", "100000000"), "at most 10,000"),
        (("bench", "run", "wal-split", "--dry-run", "--until", "ci=0%"), "is not ci=PERCENT"),
    ],
)
def test_what_would_take_for_ever_or_end_in_vain_is_refused_at_once(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with Workspace.open(tmp_path / "pgstow.db") as store:
        store.add("profile", report_samples.profile())
    status, error = ended(capsys, monkeypatch, *arguments)
    assert status == 2
    assert is_one_line(error)
    assert says in error
