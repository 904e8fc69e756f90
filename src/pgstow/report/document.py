"""What a page is made of: values, each optional, and the page shows what there is."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model import (
    Layout,
    Measurement,
    Plan,
    Prediction,
    Price,
    Profile,
    Provenance,
    Step,
    Warning,
)
from pgstow.model.result import StepStatus
from pgstow.model.statistics import Comparison, Effect
from pgstow.report.experiments.section import ExperimentSection


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A step and what the journal says became of it."""

    step: Step
    status: StepStatus | Literal["not taken"]
    seconds: float | None = None
    bytes: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class VolumePrice:
    """What one volume costs, line by line, and where the price is from."""

    volume: str
    price: Price
    provenance: Provenance | None = None


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """All that a page can show. ``generated_at`` is ISO 8601; nothing here reads a clock.

    ``before`` and ``after`` are measurements of the layouts that the loads ran on. Where there is
    no ``after`` but a plan, its prediction stands in its place and is said to be one. ``predicted``
    is of the layout after, or where there is none of the one observed. ``applied`` is the layout
    that apply was given. ``profile_after`` is the load on the new layout. ``layout_files`` have
    the names that ``commands`` use.
    """

    title: str
    generated_at: str
    server_version: str | None = None
    machine: str | None = None
    profile: Profile | None = None
    profile_after: Profile | None = None
    before: Measurement | None = None
    after: Measurement | None = None
    applied: Layout | None = None
    predicted: Prediction | None = None
    plan: Plan | None = None
    steps: tuple[StepOutcome, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    effect: Effect | None = None
    tps_interval_before: tuple[float, float] | None = None
    tps_interval_after: tuple[float, float] | None = None
    prices_before: tuple[VolumePrice, ...] = ()
    prices_after: tuple[VolumePrice, ...] = ()
    warnings: tuple[Warning, ...] = ()
    commands: tuple[str, ...] = ()
    layout_files: tuple[tuple[str, str], ...] = ()
    experiments: tuple[ExperimentSection, ...] = ()

    @property
    def layout_before(self) -> Layout | None:
        """The layout that was observed."""
        if self.before is not None:
            return self.before.layout
        if self.plan is not None:
            return self.plan.present.layout
        return self.profile.layout if self.profile else None

    @property
    def layout_after(self) -> Layout | None:
        """The layout that was made, else applied, else planned; None: there is no other."""
        found = self.applied
        if self.after is not None:
            found = self.after.layout
        elif found is None and self.plan is not None:
            found = self.plan.layout
        return None if found == self.layout_before else found

    @property
    def expected(self) -> Prediction | None:
        """The prediction of the layout after; where there is none, of the one observed."""
        if self.predicted is not None:
            return self.predicted
        return self.plan.prediction if self.plan else None

    @property
    def promised(self) -> Prediction | None:
        """The prediction of another layout than the one observed."""
        return self.expected if self.after is not None or self.layout_after is not None else None
