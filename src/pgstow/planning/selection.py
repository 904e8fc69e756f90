"""Which relations a person means: full or short names, quoted parts, patterns."""

import difflib
import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pgstow.model import Relation, RelationId, UserError

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)', re.DOTALL)
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern})){{0,2}}", re.DOTALL)
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Selector:
    """A name of one to three parts: ``orders``, ``public.orders``, ``shop.public.orders``.

    What stands in double quotes is taken as it is; elsewhere ``*``, ``?`` and ``[...]`` are
    patterns, and letters are folded to lower case as PostgreSQL folds them.
    """

    text: str
    parts: tuple[tuple[str, bool], ...]  # (text, whether it is a pattern)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a selector.

        >>> Selector.parse('public."Odd*name"').parts
        (('public', False), ('Odd*name', False))
        >>> Selector.parse("Orders_*").parts
        (('orders_*', True),)
        """
        if not _NAME.fullmatch(text):
            raise UserError(
                f"{text!r} names no relation",
                'write it like orders, public.orders, public."Odd name" or orders_*',
            )
        parts = [
            (quoted.replace('""', '"'), False)
            if quoted
            else (plain.lower(), bool(_WILD & set(plain)))
            for quoted, plain in _PART.findall(text)
        ]
        return cls(text, tuple(parts))

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several relations."""
        return any(is_pattern for _, is_pattern in self.parts)

    def matches(self, relation: RelationId) -> bool:
        """Whether it means this relation."""
        names = (relation.database, relation.schema, relation.name)[-len(self.parts) :]
        return all(
            fnmatch.fnmatchcase(name, part) if is_pattern else name == part
            for name, (part, is_pattern) in zip(names, self.parts, strict=True)
        )


def select(text: str, relations: Iterable[Relation], *, where: str = "") -> tuple[Relation, ...]:
    """The relations a text means; none is the user's mistake, ``where`` says what it was for.

    A partitioned table, which has no file of its own, stands for its partitions at every level.
    """
    selector = Selector.parse(text)
    known = tuple(relations)
    found = tuple(
        relation
        for relation in known
        if any(selector.matches(name) for name in (relation.id, *relation.lineage))
    )
    if not found:
        close = _close(text, known)
        hint = f"did you mean {' or '.join(close)}?" if close else "name one that the profile has"
        raise UserError(f"{where}the profile has no relation {text}", hint)
    return found


def select_together(text: str, relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """One relation, or all partitions of the one parent that a text means."""
    known = tuple(relations)
    found = select(text, known)
    roots = {relation.lineage[-1:] for relation in found}
    if len(roots) == 1 and () not in roots and not Selector.parse(text).is_pattern:
        return found
    return (select_one(text, known),)


def select_one(text: str, relations: Iterable[Relation]) -> Relation:
    """The one relation a text means; several are the user's mistake."""
    found = select(text, relations)
    if len(found) > 1:
        some = ", ".join(str(relation.id) for relation in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise UserError(f"{text} means {len(found)} relations", f"name one: {some}{more}")
    return found[0]


def _close(text: str, known: tuple[Relation, ...]) -> list[str]:
    """Full names that look like what was written; TOAST relations are nobody's to name."""
    by_name: dict[str, str] = {}
    for relation in known:
        if relation.kind not in ("toast", "toast index"):
            by_name.setdefault(str(relation.id), str(relation.id))
            by_name.setdefault(relation.id.name, str(relation.id))
    matches = difflib.get_close_matches(text, by_name, n=4, cutoff=0.6)
    return list(dict.fromkeys(by_name[name] for name in matches))[:3]
