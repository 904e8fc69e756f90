"""Write the tables of error and warning codes into docs/reference/codes.md.

    .venv/bin/python scripts/update_codes.py [--check]

Codes are stable: programs read them from ``--json``. An error's is its class's; a warning's is
found in the sources, where the warning is made, with the text it has there. What a warning fills in
is shown as ``…``. With ``--check`` nothing is written, and the exit status is 1 if the page is old.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pgstow.model import errors

ROOT = Path(__file__).parent.parent
SOURCES, PAGE = ROOT / "src/pgstow", ROOT / "docs/reference/codes.md"
OF_THE_COMMAND_LINE = {  # pgstow.cli.main makes them
    "interrupted": (130, "Ctrl-C, or a question that was not answered."),
    "internal": (1, "A defect of pgstow: run it again with --debug, and report it."),
    "memory": (1, "This machine has too little memory."),
    "path": (2, "A path on the command line that cannot be read, written or found."),
    "system": (1, "The operating system refused: a full disk, an I/O error."),
    "usage": (2, "An option, argument or command that does not exist or cannot be read."),
}
MAKERS = {"Warning", "warn", "_warn", "_report"}  # Warning, and what makes one of its arguments
CODE = re.compile(r"[a-z0-9…]+(-[a-z0-9…]+)*")


def main() -> None:
    """Rewrite the page, or look whether it is what would be written."""
    text = PAGE.read_text(encoding="utf-8")
    new = _between(_between(text, "errors", _error_table()), "warnings", _warning_table())
    if "--check" in sys.argv:
        sys.exit(new != text)
    PAGE.write_text(new, encoding="utf-8")


def _between(text: str, name: str, table: str) -> str:
    before, rest = text.split(f"<!-- {name} -->\n")
    _, after = rest.split(f"<!-- /{name} -->")
    return f"{before}<!-- {name} -->\n{table}<!-- /{name} -->{after}"


def _error_table() -> str:
    lines = ["| code | exit status | what went wrong |", "|---|---|---|"]
    families = [one for one in vars(errors).values() if isinstance(one, type)]
    rows = {one.code: (one.exit_code, " ".join((one.__doc__ or "").split())) for one in families}
    rows["failed"] = (1, "Anything else.")
    rows |= OF_THE_COMMAND_LINE
    lines += [f"| `{code}` | {status} | {said} |" for code, (status, said) in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def _warning_table() -> str:
    found: dict[str, str] = {}
    for code, message in sorted(warnings()):
        found[code] = found.get(code) or message.replace("|", "\\|")
    lines = ["| code | message |", "|---|---|"]
    return (
        "\n".join([*lines, *(f"| `{code}` | {text or '…'} |" for code, text in found.items())])
        + "\n"
    )


def warnings() -> set[tuple[str, str]]:
    """Every warning's code and the text it is made with."""
    return {
        one
        for path in sorted(SOURCES.rglob("*.py"))
        for one in _warnings_of(ast.parse(path.read_text(encoding="utf-8")))
    }


def _warnings_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    constants = {
        target.id: _text(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in MAKERS and node.args:
            first = node.args[0]
            code = constants.get(first.id) if isinstance(first, ast.Name) else _text(first)
            if code and CODE.fullmatch(code):
                yield code, _text(node.args[1]) or "" if len(node.args) > 1 else ""
        # rules of a table: (code, remedy, what finds it), (code, reason)
        elif isinstance(node, ast.Tuple) and len(node.elts) in (2, 3):
            code = _text(node.elts[0])
            text = _text(node.elts[1])
            if code and text and "-" in code and " " in text and CODE.fullmatch(code):
                yield code, text


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    """A string, with … for what it fills in; None: not a string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            said = "".join(_text(part) or "…" for part in parts)
            return re.sub("(… ?)+…", "…", said)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_text(left) or "…") + (_text(right) or "…")
        case ast.FormattedValue():
            return "…"
    return None


if __name__ == "__main__":
    main()
