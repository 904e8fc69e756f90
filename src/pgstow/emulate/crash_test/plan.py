"""What a campaign is to do: pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from pgstow.model.errors import UserError

Filesystem = Literal["xfs", "ext4"]
Wal = Literal["apart", "together"]
Loss = Literal["all", "subset", "reorder", "torn"]
TORN_SECTOR_BYTES = (512, 4096)
_SECONDS_PER_CUT = {True: 2.5, False: 3.5}  # quick or not; what the first estimate is made of
_SECONDS_PER_GROUP = 7.0  # volumes, cluster and control


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination of filesystem, WAL location and kind of loss."""

    filesystem: Filesystem
    wal: Wal
    loss: Loss
    sector_bytes: int | None = None  # of a torn write

    @property
    def loss_text(self) -> str:
        """The loss mode as text.

        >>> Combination("xfs", "apart", "torn", 512).loss_text
        'torn 512'
        """
        return self.loss if self.sector_bytes is None else f"{self.loss} {self.sector_bytes}"

    @property
    def text(self) -> str:
        """The combination as text."""
        return f"{self.filesystem}, WAL {self.wal}, {self.loss_text}"


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Every combination with the cuts that must count. Each filesystem and location of the WAL is a
    group: one cluster, whose last cut is the control with fsync off."""

    combinations: tuple[Combination, ...]
    cuts_each: int
    seed: int
    quick: bool = False
    clients: int = 8
    settings: tuple[tuple[str, str], ...] = ()  # of the server, beside the campaign's own

    @property
    def cuts(self) -> int:
        """Cuts that must count, in all."""
        return self.cuts_each * len(self.combinations)

    @property
    def groups(self) -> tuple[tuple[Combination, ...], ...]:
        """Combinations by what they share: the cluster."""
        grouped = groupby(self.combinations, key=lambda entry: (entry.filesystem, entry.wal))
        return tuple(tuple(entries) for _, entries in grouped)

    @property
    def seconds(self) -> float:
        """A first estimate of how long it takes."""
        return self.cuts * _SECONDS_PER_CUT[self.quick] + len(self.groups) * _SECONDS_PER_GROUP

    @property
    def cuts_max(self) -> int:
        """So many cuts of one combination end it: too few of them hit writes."""
        return 3 * self.cuts_each + 10

    @property
    def load_seconds(self) -> tuple[float, float]:
        """The least and most time that the load runs before a cut."""
        return (0.2, 0.8) if self.quick else (0.3, 3.0)


def make_plan(
    *,
    filesystems: Sequence[str],
    wal: Sequence[str],
    losses: Sequence[str],
    cuts: int,
    seed: int,
    quick: bool = False,
    settings: Sequence[tuple[str, str]] = (),
) -> CampaignPlan:
    """The plan for what the user asks; cuts are shared evenly, at least one a combination.

    >>> plan = make_plan(filesystems=["xfs"], wal=["apart"], losses=["all", "torn"], cuts=4, seed=1)
    >>> [combination.loss_text for combination in plan.combinations], plan.cuts_each
    (['all', 'torn 512', 'torn 4096'], 2)
    """
    _check("filesystem", filesystems, get_args(Filesystem))
    _check("wal", wal, get_args(Wal))
    _check("loss", losses, get_args(Loss))
    if cuts < 1:
        raise UserError(f"--cuts must be at least 1, not {cuts}", "ask for 200 for a verdict")
    combinations = tuple(
        Combination(filesystem, location, loss, sector_bytes)  # type: ignore[arg-type]
        for filesystem in dict.fromkeys(filesystems)
        for location in dict.fromkeys(wal)
        for loss in dict.fromkeys(losses)
        for sector_bytes in (TORN_SECTOR_BYTES if loss == "torn" else (None,))
    )
    each = 1 if quick else math.ceil(cuts / len(combinations))
    return CampaignPlan(combinations, each, seed, quick, settings=tuple(settings))


def _check(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    wrong = [name for name in given if name not in known]
    if wrong or not given:
        named = f"{wrong[0]!r} is not one" if wrong else "none is named"
        raise UserError(f"--{what}: {named}", f"choose from {', '.join(known)}")
