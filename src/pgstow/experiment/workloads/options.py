"""The options of data makers and the variables of workloads: known ones, within their limits."""

from collections.abc import Collection

from pgstow.model.errors import UserError
from pgstow.model.experiment import DataChoice

_TRUE, _FALSE = ("true", "on", "yes"), ("false", "off", "no")


def refuse_unknown(what: str, names: Collection[str], known: Collection[str], kind: str) -> None:
    """Raise UserError for the first name that is not known."""
    for name in names:
        if name not in known:
            remedy = f"use {', '.join(known)}" if known else "leave it out"
            raise UserError(f"{what} has no {kind} {name}", remedy)


def whole_number(data: DataChoice, name: str, default: int, *, least: int, most: int) -> int:
    """An option's whole number."""
    text = dict(data.options).get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise UserError(
            f"{data.maker}'s option {name} is {text!r}", f"use a number from {least} to {most}"
        )
    return int(text)


def yes_or_no(data: DataChoice, name: str) -> bool:
    """Whether an option is true; one that is not given is not."""
    text = dict(data.options).get(name, "false").lower()
    if text not in _TRUE + _FALSE:
        raise UserError(f"{data.maker}'s option {name} is {text!r}", "use true or false")
    return text in _TRUE
