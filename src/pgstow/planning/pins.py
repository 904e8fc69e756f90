"""Pins: what a person wants on a certain volume, on any volume of a type, or on a new volume."""

import difflib
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Literal

from pgstow.model import Layout, Profile, RelationId, UserError
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.selection import select

_WAL, _TEMP = "wal", "temp"
_ALIKE = 0.6  # names so close to one there is are taken for its misspelling


@dataclass(frozen=True, slots=True)
class Target:
    """Where something is pinned: an existing volume, any volume of a type, or a new volume."""

    kind: Literal["volume", "type", "new"]
    name: str

    def fits(self, candidate: CandidateVolume) -> bool:
        """Whether what is pinned may be placed on a candidate."""
        if self.kind == "volume":
            return candidate.existing is not None and candidate.existing.name == self.name
        if self.kind == "type":
            return candidate.type == self.name
        return candidate.name == self.name


@dataclass(frozen=True, slots=True)
class Pins:
    """What is pinned where."""

    relations: dict[RelationId, Target]
    wal: Target | None = None
    temp: Target | None = None

    @property
    def new_volumes(self) -> tuple[str, ...]:
        """The names of volumes that pins ask for."""
        return self._names("new")

    @property
    def types(self) -> tuple[str, ...]:
        """The types that pins ask for."""
        return self._names("type")

    def _names(self, kind: str) -> tuple[str, ...]:
        every = [*self.relations.values(), self.wal, self.temp]
        names = [one.name for one in every if one is not None and one.kind == kind]
        return tuple(dict.fromkeys(names))


def pins_of(pins: Iterable[tuple[str, str]], profile: Profile, types: Iterable[str]) -> Pins:
    """Read pins; what they name must exist, and nothing may be pinned to two targets.

    A pin of a table is not one of its indexes; its TOAST goes with it.
    """
    known = frozenset(types)
    relations: dict[RelationId, Target] = {}
    asked: dict[RelationId, str] = {}
    others: dict[str, Target] = {}
    for what, where in pins:
        text = f"--pin {what}={where}"
        target = _target(where, text, profile.layout, known)
        if what in (_WAL, _TEMP):
            if others.setdefault(what, target) != target:
                raise _contradiction(what, others[what], target)
            continue
        for relation in select(what, profile.server.relations, where=f"{text}: "):
            owner = relation.owner
            if relations.setdefault(owner, target) != target:
                raise _contradiction(str(owner), relations[owner], target, asked[owner], text)
            asked.setdefault(owner, text)
    return Pins(relations, others.get(_WAL), others.get(_TEMP))


def check_prices(pins: Pins, priced: Container[str], region: str | None) -> None:
    """Refuse a pin to a type whose price is not known."""
    for name in pins.types:
        if name not in priced:
            where = region or "the layout's region"
            raise UserError(
                f"a pin asks for {name}, of which the catalog has no price in {where}",
                "drop the pin, or write the price into a catalog file of your own",
            )


def _contradiction(
    what: str, one: Target, other: Target, first: str = "", second: str = ""
) -> UserError:
    which = f"drop one of {first} and {second}" if first else "drop one of the two"
    return UserError(f"{what} is pinned to {one.name} and to {other.name}", which)


def _target(where: str, text: str, present: Layout, types: frozenset[str]) -> Target:
    volumes = [volume.name for volume in present.volumes]
    if where in volumes:
        return Target("volume", where)
    if where in types:
        return Target("type", where)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,30}", where):
        raise UserError(
            f"{text}: {where!r} is no volume, no type and no name for a new volume",
            f"name one of {', '.join(volumes)}, a type, or up to 31 letters, digits, - and _",
        )
    close = difflib.get_close_matches(where, [*volumes, *types], n=2, cutoff=_ALIKE)
    if close:
        raise UserError(
            f"{text}: there is no volume or type {where}",
            f"did you mean {' or '.join(close)}? A new volume needs a name less like them",
        )
    return Target("new", where)
