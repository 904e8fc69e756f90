"""The ledger's transactions, and the client's own record of them: pure.

A transfer follows from its number alone, so a record is a set of numbers and whatever is read
back can be compared to the last byte. A number is never used twice.
"""

import hashlib
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

ACCOUNTS = 20_000  # as ledger_schema.sql makes them
_CLIENT_BITS = 40
_LONG_NOTES = 0.1  # the part of notes that are long enough to be stored out of line
Row = tuple[int, int, int, int, int, str]  # as ledger_journal.sql gives it


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transaction: an amount from one account to another, and a note."""

    id: int
    source: int
    target: int
    amount: int
    note: str

    @property
    def words(self) -> list[str]:
        """What the GIN index is over."""
        return ["transfer", f"client{self.id >> _CLIENT_BITS}", f"amount{self.amount}"]

    @property
    def checksum(self) -> int:
        """A checksum of all of it."""
        text = f"{self.id} {self.source} {self.target} {self.amount} {self.note}"
        return zlib.crc32(text.encode())

    @property
    def row(self) -> Row:
        """The row that must be read back."""
        digest = hashlib.md5(self.note.encode(), usedforsecurity=False).hexdigest()
        return self.id, self.source, self.target, self.amount, self.checksum, digest


def transfer(seed: int, number: int) -> Transfer:
    """The transfer of a number.

    >>> transfer(1, 7) == transfer(1, 7), transfer(1, 7).note == transfer(1, 8).note
    (True, False)
    """
    chooser = random.Random(f"{seed} {number}")  # noqa: S311  (a load, no secrets)
    source, target = chooser.sample(range(ACCOUNTS), 2)
    length = 4000 if chooser.random() < _LONG_NOTES else chooser.randint(8, 60)
    return Transfer(
        number, source, target, chooser.randint(1, 500), chooser.randbytes(length).hex()
    )


@lru_cache(maxsize=1 << 17)
def _expected(seed: int, number: int) -> Row:
    return transfer(seed, number).row


@dataclass
class ClientRecord:
    """One client's record of its transactions. Only its own thread writes to it."""

    client: int
    sent: int = 0  # how many numbers it has used
    acknowledged: list[int] = field(default_factory=list)
    in_doubt: list[int] = field(default_factory=list)  # sent, and no answer came
    refused: list[int] = field(default_factory=list)  # rolled back on purpose, or seen absent

    def next_number(self) -> int:
        """A number that was never used."""
        self.sent += 1
        return (self.client << _CLIENT_BITS) | self.sent


@dataclass(frozen=True, slots=True)
class Audit:
    """What the journal that was read back says, by numbers of transfers."""

    checked: int  # acknowledged transfers that were looked for
    lost: tuple[int, ...] = ()  # acknowledged, and not there
    damaged: tuple[int, ...] = ()  # there, and other than they were sent
    repeated: tuple[int, ...] = ()  # there more than once
    phantom: tuple[int, ...] = ()  # never sent, rolled back, or seen absent before
    landed: int = 0  # in doubt, and there: whole
    vanished: int = 0  # in doubt, and not there

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.damaged or self.repeated or self.phantom)


@dataclass
class Ledger:
    """All clients' records, and the summary's fillings; it outlives every power cut."""

    seed: int
    clients: list[ClientRecord]
    generation_sent: int = 0
    generation_acknowledged: int = 0

    @classmethod
    def of(cls, seed: int, clients: int) -> "Ledger":
        """An empty ledger for so many clients."""
        return cls(seed, [ClientRecord(number + 1) for number in range(clients)])

    @property
    def acknowledged(self) -> int:
        """How many transfers were acknowledged so far."""
        return sum(len(record.acknowledged) for record in self.clients)

    @property
    def in_doubt(self) -> int:
        """How many transfers are in doubt."""
        return sum(len(record.in_doubt) for record in self.clients)

    def audit(self, rows: Iterable[Row]) -> Audit:
        """Compare with what was read back, and resolve what was in doubt.

        What was in doubt is from now on either acknowledged (the server has shown it) or refused.
        """
        found: set[int] = set()
        damaged, repeated = [], []
        for row in rows:
            if row[0] in found:
                repeated.append(row[0])
            found.add(row[0])
            if tuple(row) != _expected(self.seed, row[0]):
                damaged.append(row[0])
        acknowledged = {n for record in self.clients for n in record.acknowledged}
        in_doubt = {n for record in self.clients for n in record.in_doubt}
        for record in self.clients:
            record.acknowledged += [n for n in record.in_doubt if n in found]
            record.refused += [n for n in record.in_doubt if n not in found]
            record.in_doubt.clear()
        return Audit(
            checked=len(acknowledged),
            lost=tuple(sorted(acknowledged - found)),
            damaged=tuple(damaged),
            repeated=tuple(repeated),
            phantom=tuple(sorted(found - acknowledged - in_doubt)),
            landed=len(in_doubt & found),
            vanished=len(in_doubt - found),
        )

    def wrong_generation(self, found: Iterable[tuple[int, int, bool]]) -> str | None:
        """What is wrong with the summary's fillings, if anything; then takes it as the last."""
        numbers = [generation for generation, _, _ in found]
        if len(numbers) > 1:
            return f"the summary has fillings {numbers} at once: a TRUNCATE was torn"
        number = numbers[0] if numbers else 0
        if not self.generation_acknowledged <= number <= self.generation_sent:
            return (
                f"the summary has filling {number}, not {self.generation_acknowledged} to"
                f" {self.generation_sent}"
            )
        self.generation_acknowledged = number
        return None
