"""Whatever text is printed, nothing in it acts on the terminal, and names stay whole."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import content_platform
import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

import pgstow.model.errors as families
from pgstow.cli import main as cli_main
from pgstow.cli import output
from pgstow.cli.names import printable, shown
from pgstow.model import Warning
from pgstow.model.errors import PgstowError

HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil\x1b\\here",
    "return": "safe\rpgstow: all is well",
    "backspace": "ab\b\b",
    "c1": "\x9b31m \x9d0;t\x9c \x85",
    "bidi": "\u202egnp.exe\u202c \u2066x\u2069",
    "separators": "one\u2028two\u2029",
    "delete": "\x7f",
    "surrogate": "\udc9b31m",
    "null": "\x00",
    "invisible": "a\u200bb\ufeff",
    "markup": "[red]x[/red] [/] [link=http://evil]y[/link] :skull:",
}
ALL = " ".join(HOSTILE.values())
COMMANDS_MODULES = Path(cli_main.__code__.co_filename).parent


def acts(text: str) -> set[str]:
    """The characters of a text that may act on a terminal, or hide."""
    return {one for one in text if one != "\n" and not one.isprintable()}


def error_classes() -> list[type[PgstowError]]:
    found = [one for one in vars(families).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, PgstowError)]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_written_out(text: str) -> None:
    assert not acts(shown(text))
    assert "\n" not in shown(text + "\n")
    assert not acts(printable(text))
    assert shown(shown(text)) == shown(text)


def test_what_is_harmless_stays() -> None:
    for text in ("Zürich, 東京, naïve", "a b", "µs × 2 ± 1 % – …", "C:\\x"):
        assert shown(text) == text


@pytest.mark.parametrize("family", error_classes())
@pytest.mark.parametrize("debug", [False, True])
def test_every_error_is_written_out_and_keeps_its_status(
    family: type[PgstowError],
    debug: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise family(f"relation {ALL}\nis bad", f"look at {ALL}")

    monkeypatch.setattr(sys.modules["pgstow.cli.main"], "app", fails)
    monkeypatch.setattr(sys, "argv", ["pgstow", "catalog", *(["--debug"] if debug else [])])
    with pytest.raises(SystemExit) as ended:
        cli_main()
    assert ended.value.code == family.exit_code
    error = capsys.readouterr().err
    assert not acts(error)
    assert error.splitlines()[-1].startswith("pgstow: relation \\x1b[31mred")
    assert ("Traceback" in error) is debug
    assert debug or error.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ValueError(ALL), 1, "internal error: \\x1b"),
        (FileNotFoundError(2, "No such file or directory", ALL), 2, "\\x1b[31mred"),
        (OSError(28, "No space left on device", "/x"), 1, "/x: No space left on device"),
        (MemoryError(), 1, "too little memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_other_errors_are_one_line(
    error: BaseException,
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sys.modules["pgstow.cli.main"], "app", fails)
    monkeypatch.setattr(sys, "argv", ["pgstow", "catalog"])
    with pytest.raises(SystemExit) as ended:
        cli_main()
    assert ended.value.code == status
    printed = capsys.readouterr().err
    assert says in printed
    assert printed.count("\n") == 1
    assert not acts(printed)


def test_a_misused_command_line_is_written_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([ALL], ["plan", f"--{ALL}"], ["catalog", "show", ALL], ["emulate", ALL]):
        monkeypatch.setattr(sys, "argv", ["pgstow", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli_main()
        assert ended.value.code == 2
        assert not acts(capsys.readouterr().err)


def test_every_way_to_print_writes_out(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "text")
    table.add_row(ALL, Text(ALL))
    for console in (output.console(), output.error_console()):
        console.print(ALL)
        console.print(Text(ALL))
        console.print(table)
        console.print(output.table((ALL, "n"), [(ALL, ALL)]))
    output.print_warnings([Warning("code", f"message {ALL}", f"remedy {ALL}")])
    output.print_error(ALL)
    output.print_traceback(ALL)
    printed = capsys.readouterr()
    assert not acts(printed.out)
    assert not acts(printed.err)
    assert "[red]x[/red]" in printed.out  # a name's own brackets are text
    assert ":skull:" in printed.out


def test_json_holds_the_name_and_does_not_act(capsys: pytest.CaptureFixture[str]) -> None:
    astral = "\U000e0001"  # a tag character: does not show, and takes two escapes in JSON
    output.print_json({ALL.replace("\udc9b", ""): [f"é{astral}\u202e"]})
    printed = capsys.readouterr().out
    assert not acts(printed)
    assert json.loads(printed) == {ALL.replace("\udc9b", ""): [f"é{astral}\u202e"]}
    assert "é" in printed


def test_a_terminal_gets_richs_styles_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    output.print_warnings([Warning("code", f"message {ALL}", "do")])
    columns = (TextColumn("{task.description}", markup=False),)
    with Progress(*columns, console=output.error_console()) as bar:
        bar.add_task(ALL, total=1)
    text = stream.getvalue()
    assert "\x1b[33mwarning:\x1b[0m " in text
    # Besides SGR of rich's own, its live display moves the cursor and clears lines.
    rest = re.sub(r"\x1b\[(33m|0m|\?25[lh]|1A|2K)|\r", "", text)
    assert not acts(rest)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_exports_reach_programs_as_they_are_and_terminals_written_out(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    output.write_data("a,\x1b[31m\n")
    assert capsys.readouterr().out == ("a,\\x1b[31m\n" if is_terminal else "a,\x1b[31m\n")


def test_only_output_prints() -> None:
    wrong = re.compile(
        r"(?<![\w.])print\(|typer\.echo|typer\.confirm|sys\.std(out|err)\.(write|b)|Console\("
    )
    for module in COMMANDS_MODULES.glob("*.py"):
        if module.name in ("output.py", "terminal.py"):
            continue
        lines = enumerate(module.read_text().splitlines(), 1)
        assert [one for one in lines if wrong.search(one[1])] == [], module.name


WIDE = "shop.public.a_name_as_long_as_postgresql_allows_sixty_three_bytes_for_it"


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140])
def test_names_stay_whole_on_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    figures = ("1,234", "1.2 GiB", "345.6 MiB/s", "99.9 %", "data")
    titles = ("relation", "reads/s", "size", "scanned", "share", "volume")
    output.console().print(output.table(titles, [(WIDE, *figures), ("b", *figures)]))
    printed = capsys.readouterr().out
    for text in (WIDE, *figures, *titles):
        assert text in printed
    if columns in (80, 100):  # the name alone takes most of it: figures are below
        assert max(len(line.rstrip()) for line in printed.splitlines()) <= columns


def test_what_goes_to_a_file_is_as_wide_as_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    sentence = "one row is one line, however long the sentence " * 8
    output.console().print(output.table(("name", "says"), [(WIDE, sentence.strip())]))
    assert f"{WIDE}  {sentence.strip()}" in capsys.readouterr().out


def test_sentences_are_wrapped_and_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words = "wrapped at words so that each can be read on the terminal it is shown on"
    output.console().print(output.table(("name", "says"), [("short", words)]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 60
    assert set(words.split()) <= set(" ".join(lines).split())


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgstow", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_text_that_the_terminals_encoding_lacks_is_no_error() -> None:
    done = run("catalog", "price", "gp3", "--size", "10GiB", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\xd7" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "koi8-r"])
def test_json_is_json_in_any_encoding(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgstow", "catalog", "--json"],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert json.loads(done.stdout.decode(encoding)) == json.loads(run("catalog", "--json").stdout)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["catalog price gp3 --size 1GiB", "catalog --json", "plan"])
def test_closed_streams_are_no_error(command: str, closed: str, tmp_path: Path) -> None:
    script = f"{sys.executable} -m pgstow {command} {closed}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "internal" not in done.stderr and "Traceback" not in done.stderr
    assert done.returncode == (2 if command == "plan" else 0)


@pytest.mark.parametrize("command", ["catalog price gp3 --size 1GiB", "catalog --json"])
def test_output_that_cannot_be_written_is_one_line(command: str) -> None:
    script = f"{sys.executable} -m pgstow {command} >/dev/full"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("pgstow: standard output: ")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"set -o pipefail; {sys.executable} -m pgstow catalog --json | head -c 1; exit $?"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)


@pytest.mark.parametrize("module", ["pgstow.cli", "pgstow.cli.plan", "pgstow.cli.main"])
def test_ctrl_c_while_modules_are_read_ends_quietly(module: str) -> None:
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from pgstow.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "catalog"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert done.stderr == "pgstow: interrupted\n"


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import sys; sys.argv = ['pgstow', '--version']\n"
        "import atexit; atexit.register(lambda: print(signal.getsignal(signal.SIGINT)))\n"
        "from pgstow.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] in ("1", "Handlers.SIG_IGN")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--json", "catalog", "price", "gp3", "--size", "10GiB"), '"usd_month": 0.8'),
        (("help", "plan"), "Usage: pgstow plan"),
        (("help", "catalog", "price"), "Usage: pgstow catalog price"),
        (("help",), "Usage: pgstow"),
    ],
)
def test_what_stands_before_a_commands_name(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


@pytest.mark.parametrize("columns", ["80", "100"])
def test_an_observation_is_whole_on_a_narrow_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    seen = content_platform.profile()
    sys.modules["pgstow.cli.observe"]._print(seen, output.console())  # type: ignore[attr-defined]
    printed = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= int(columns)
    busy = [str(one.relation) for one in seen.demands if one.random_reads.mean > 100]
    for text in ("aqu-sz", "Written", "Share", "Volume", *busy):
        assert text in printed
