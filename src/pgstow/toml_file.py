"""TOML files that people write: reading their text, and each mistake as one line.

A mistake names the key, the value and the rule, and says what to write instead.
"""

import difflib
import json
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pgstow.model.errors import UserError

KeyPath = tuple[int | str, ...]


def read_text(path: Path, what: str, error: type[UserError] = UserError) -> str:
    """The text of a file; ``what`` says in errors which kind it is."""
    if not path.name:
        raise UserError(f"{what}: no file is named", "give the path of one")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{what} {path} does not exist", "give the path of one") from None
    except UnicodeDecodeError as wrong:
        remedy = "save it as UTF-8"
        raise error(f"{path}: is not UTF-8 text (byte {wrong.start})", remedy) from None
    except OSError as wrong:
        message = f"{what} {path} cannot be read: {wrong.strerror}"
        raise UserError(message, "check the path and its mode") from None


def parse_tables(text: str, source: str, error: type[UserError] = UserError) -> dict[str, Any]:
    """The tables of a TOML text; ``source`` names it in errors."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        message = str(wrong)
        key_path = re.search(r"^(.*) \(at (.*)\)$", message, flags=re.DOTALL)
        wrong_at = f"{key_path[2]}: {key_path[1]}" if key_path else message
        raise error(f"{source}: {wrong_at}", "correct the TOML") from None
    except RecursionError:
        raise error(f"{source}: {_TOO_DEEP}", "correct the TOML") from None
    except ValueError:  # Python reads no number of so many digits
        raise error(f"{source}: {_TOO_LARGE}", "correct the number") from None
    for key, value in _values(tables):
        problem = _problem(key, value)
        if problem:
            raise error(f"{source}: {dotted(key[:_DEEPEST])}: {problem}", "correct the TOML")
    return tables


_DEEPEST = 30  # tables and lists in one another
_TOO_DEEP = f"is more than {_DEEPEST} tables and lists deep"
_TOO_LARGE = "a number has more digits than TOML allows (64 bits)"


def _problem(key_path: KeyPath, value: object) -> str | None:
    """What no key of any file may hold, whatever it means."""
    if len(key_path) > _DEEPEST:
        return _TOO_DEEP
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _TOO_LARGE
    if isinstance(value, str) and "\0" in value:
        return "holds the character U+0000, which no name or path can have"
    return None


def _values(tables: dict[str, Any]) -> Iterator[tuple[KeyPath, object]]:
    """Every key and value below, without recursion; not below what is too deep already."""
    waiting: list[tuple[KeyPath, Any]] = [((), tables)]
    while waiting:
        key_path, value = waiting.pop()
        yield key_path, value
        if len(key_path) > _DEEPEST:
            continue
        if isinstance(value, dict):
            for key, inner in value.items():
                yield (*key_path, key), key
                waiting.append(((*key_path, key), inner))
        elif isinstance(value, list):
            waiting += (((*key_path, number), inner) for number, inner in enumerate(value))


def first_mistake(error: ValidationError) -> tuple[ErrorDetails, str]:
    """The mistake to show, and how many more there are, as an addition to its remedy."""
    mistakes = error.errors(include_url=False)
    mistakes.sort(key=lambda one: one["type"] != "extra_forbidden")  # a typo explains a gap
    others = len(mistakes) - 1
    more = f" ({others} more mistake{'s' if others > 1 else ''} in the file)" if others else ""
    return mistakes[0], more


def explain(mistake: ErrorDetails, root: type[BaseModel], document: str) -> tuple[str, str]:
    """What is wrong with one key of the file that ``root`` describes, and what to write."""
    key_path = mistake["loc"]
    key = dotted(key_path)
    if mistake["type"] == "extra_forbidden":
        known = keys_at(root, key_path[:-1])
        return f"{key}: unknown key", did_you_mean(str(key_path[-1]), known)
    if mistake["type"] == "missing":
        return f"{key}: is missing", f"see {document}"
    if mistake["type"] == "too_short":
        return f"{key}: has none", f"write at least one [{key}.NAME]"
    if mistake["type"] in ("model_type", "dict_type"):
        return f"{key}: must be a table, not {shown(mistake['input'])}", f"write it as [{key}]"
    context: dict[str, Any] = mistake.get("ctx", {})
    reason = context.get("error")
    if reason is not None:
        rule, _, remedy = str(reason).partition("; ")
        if repr(mistake["input"]) not in rule:
            rule = f"{shown(mistake['input'])}: {rule}"
        return f"{key}: {rule}", remedy
    rule = mistake["msg"][0].lower() + mistake["msg"][1:]
    return f"{key}: {shown(mistake['input'])}: {rule}", f"see {document}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that is none of the known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}" if close else f"use one of: {', '.join(names)}"


def shown(value: object) -> str:
    """A value as TOML has it, nearly, and not too long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def dotted(key_path: KeyPath) -> str:
    """A key as TOML writes it, list positions in brackets."""
    text = ""
    for part in key_path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + quoted_key(part)
    return text or "the file"


def quoted_key(name: str) -> str:
    """One part of a key, in quotes where TOML asks for them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted_text(name)


def quoted_text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def keys_at(root: type[BaseModel], key_path: KeyPath) -> list[str]:
    """The keys that a table of the file may have; none where any will do."""
    kind: Any = root
    for part in key_path:
        kind = _inside(kind, part)
    return sorted(kind.model_fields) if _is_table(kind) else []


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inside(kind: Any, part: int | str) -> Any:
    """What may stand below one key of a table, a dictionary of them, or a list."""
    if _is_table(kind):
        field = kind.model_fields.get(str(part))
        return None if field is None else _bare(field.annotation)
    arguments = typing.get_args(kind)
    return _bare(arguments[-1]) if arguments else None


def _bare(kind: Any) -> Any:
    """A type without Annotated and ``| None``."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (typing.Union, UnionType):
            kind = next(one for one in typing.get_args(kind) if one is not type(None))
        else:
            return kind
