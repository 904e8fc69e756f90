"""What a validity check is given, and what it finds."""

from dataclasses import dataclass

from pgstow.model import Experiment, Treatment, Trial


@dataclass(frozen=True, slots=True)
class Case:
    """A treatment of an experiment with its trials, of which there is at least one."""

    experiment: Experiment
    treatment: Treatment
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a treatment, and how bad it is beside the same of others."""

    severity: float
    text: str
