"""pgbench's per-transaction logs, and what they say of a run or of a part of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgstow.experiment.workload import LatencySummary, Script, ScriptResult

# A line is: client, transaction, latency in µs or a word, script, end in s and µs since the epoch.
_COLUMNS = 6
_WORDS = {b"failed": b"-1", b"skipped": b"-2"}
_FAILED, _SKIPPED = -1, -2


@dataclass(frozen=True, slots=True)
class Transactions:
    """One entry a logged transaction; ``latency_us`` is negative where it failed or was skipped."""

    script: NDArray[np.int64]
    latency_us: NDArray[np.int64]
    end_us: NDArray[np.int64]  # since the epoch

    def __len__(self) -> int:
        return len(self.script)

    def between(self, first_us: int, last_us: int) -> "Transactions":
        """Those that ended in that time."""
        inside = (self.end_us >= first_us) & (self.end_us < last_us)
        return Transactions(self.script[inside], self.latency_us[inside], self.end_us[inside])

    def begin_us(self) -> int:
        """When the first began."""
        return int((self.end_us - np.maximum(self.latency_us, 0)).min())


def read_logs(paths: Iterable[Path]) -> Transactions:
    """Read the logs of all threads of all pieces of a run."""
    parts = [parse_log(path.read_bytes()) for path in sorted(paths)]
    if not parts:
        return parse_log(b"")
    return Transactions(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS)
    )


_FIELDS = ("script", "latency_us", "end_us")


def parse_log(text: bytes) -> Transactions:
    """Read the text of one log; a last line that was cut off is left out.

    >>> parse_log(b"0 1 4200 1 1700000000 250000\\n3 9 failed 0 1700000001 0\\n").latency_us
    array([4200,   -1])
    """
    whole = text[: text.rfind(b"\n") + 1]
    for word, number in _WORDS.items():
        whole = whole.replace(word, number)
    values = np.fromstring(whole.decode("ascii"), dtype=np.int64, sep=" ")
    table = values.reshape(-1, _COLUMNS)
    return Transactions(table[:, 3], table[:, 2], table[:, 4] * 1_000_000 + table[:, 5])


def summarise_latency(latency_us: NDArray[np.int64]) -> LatencySummary:
    """Mean and percentiles of the transactions that went through."""
    done = latency_us[latency_us >= 0]
    if len(done) == 0:
        return LatencySummary(0)
    p50, p95, p99 = np.percentile(done, (50, 95, 99)) / 1000
    mean, largest = float(done.mean()) / 1000, float(done.max()) / 1000
    return LatencySummary(len(done), mean, float(p50), float(p95), float(p99), largest)


def summarise_scripts(
    transactions: Transactions, scripts: Sequence[Script], seconds: float, sampling_rate: float
) -> tuple[ScriptResult, ...]:
    """Each script's part, in the order of the scripts."""
    results = []
    for number, script in enumerate(scripts):
        latency_us = transactions.latency_us[transactions.script == number]
        summary = summarise_latency(latency_us)
        count = round(summary.count / sampling_rate)
        results.append(
            ScriptResult(
                name=script.name,
                weight=script.weight,
                transactions=count,
                failed=round(int((latency_us == _FAILED).sum()) / sampling_rate),
                skipped=round(int((latency_us == _SKIPPED).sum()) / sampling_rate),
                tps=count / seconds,
                latency=summary,
            )
        )
    return tuple(results)


def samples_per_second(
    transactions: Transactions, first_us: int, last_us: int, sampling_rate: float
) -> tuple[float, ...]:
    """How many ended in each whole second of that time."""
    done = transactions.end_us[transactions.latency_us >= 0]
    seconds = (last_us - first_us) // 1_000_000
    counts, _ = np.histogram(
        done, bins=max(seconds, 1), range=(first_us, first_us + max(seconds, 1) * 1_000_000)
    )
    return tuple(float(count) / sampling_rate for count in counts)
