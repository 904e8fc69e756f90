"""pgbench's per-transaction logs, read in parts, so that a long run's log need not fit in memory.

A line is: client, transaction, latency in µs or a word, script, end in s and µs since the epoch,
and, where a rate was set, how much of the latency was waiting for a client (µs).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 6
_LAG = 6  # the column that a rate adds
_WORDS = {b"failed": b"-1", b"skipped": b"-2"}
FAILED, SKIPPED = -1, -2
_PART_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Transactions:
    """One entry a logged transaction; ``latency_us`` is negative where it failed or was skipped.

    With a rate, the latency is from when the transaction was due, and ``begin_us`` is when a client
    took it up.
    """

    script: NDArray[np.int16]
    latency_us: NDArray[np.int64]
    begin_us: NDArray[np.int64]  # since the epoch
    end_us: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.script)

    def where(self, selected: NDArray[np.bool_]) -> "Transactions":
        """Those for which it is true."""
        return Transactions(
            self.script[selected],
            self.latency_us[selected],
            self.begin_us[selected],
            self.end_us[selected],
        )

    def overlapping(self, first_us: int, last_us: int) -> "Transactions":
        """Those of which some part was in that time."""
        return self.where((self.end_us >= first_us) & (self.begin_us < last_us))

    def ended(self, first_us: int, last_us: int) -> "Transactions":
        """Those that ended in that time."""
        return self.where((self.end_us >= first_us) & (self.end_us < last_us))


def read_logs(
    paths: Iterable[Path], first_us: int | None = None, last_us: int | None = None
) -> Transactions:
    """Read the logs of all threads of all pieces of a run; only what overlaps a time, if given."""
    parts = []
    for path in sorted(paths):
        for text in _whole_lines(path):
            part = parse_log(text)
            if first_us is not None or last_us is not None:
                part = part.overlapping(
                    0 if first_us is None else first_us, last_us or np.iinfo(np.int64).max
                )
            parts.append(part)
    return _joined(parts)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """A file's text in parts that end with a line."""
    rest = b""
    with path.open("rb") as file:
        while text := file.read(_PART_BYTES):
            whole, newline, after = text.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = after
            else:
                rest += text


def _joined(parts: Sequence[Transactions]) -> Transactions:
    if not parts:
        return parse_log(b"")
    return Transactions(
        np.concatenate([part.script for part in parts]),
        np.concatenate([part.latency_us for part in parts]),
        np.concatenate([part.begin_us for part in parts]),
        np.concatenate([part.end_us for part in parts]),
    )


def parse_log(text: bytes) -> Transactions:
    """Read the text of one log; a last line that was cut off is left out.

    >>> parse_log(b"0 1 4200 1 1700000000 250000\\n3 9 failed 0 1700000001 0\\n").latency_us
    array([4200,   -1])
    """
    whole = text[: text.rfind(b"\n") + 1]
    columns = len(whole[: whole.find(b"\n")].split()) or _COLUMNS
    for word, number in _WORDS.items():
        whole = whole.replace(word, number)
    values = np.fromstring(whole.decode("ascii"), dtype=np.int64, sep=" ")
    table = values.reshape(-1, columns)
    latency_us = table[:, 2].copy()
    end_us = table[:, 4] * 1_000_000 + table[:, 5]
    busy_us = np.maximum(latency_us, 0)
    if columns > _LAG:
        busy_us = np.maximum(busy_us - table[:, _LAG], 0)
    return Transactions(table[:, 3].astype(np.int16), latency_us, end_us - busy_us, end_us)
