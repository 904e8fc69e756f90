"""What to know of a run before its figures are believed."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgstow.catalog import Catalog
    from pgstow.model import Experiment, Trial, Warning


def warnings_of(
    experiment: "Experiment", trials: "Sequence[Trial]", rules: "Catalog"
) -> "tuple[Warning, ...]":
    """The trials' own warnings, each text once, and those of the validity checks."""
    from pgstow.host import cpu, machine
    from pgstow.verification import experiments as statistics

    layouts = [one.layout for one in experiment.treatments if one.layout is not None]
    is_here = bool(trials) and trials[0].build.machine == machine.describe()
    found = statistics.validity_checks(
        experiment,
        trials,
        burst_s={
            volume: rules.burst_seconds(volume) for layout in layouts for volume in layout.volumes
        },
        instance_burst_s={layout.host: rules.host_burst_seconds(layout.host) for layout in layouts},
        devices={
            volume: rules.device(volume, one.host) for one in layouts for volume in one.volumes
        },
        caps={layout.host: rules.host_cap(layout.host) for layout in layouts},
        memory_bytes=cpu.memory_bytes() if is_here else None,
    )
    return tuple(dict.fromkeys((*_once(trials), *found)))


def _once(trials: "Sequence[Trial]") -> "Iterator[Warning]":
    alike: dict[tuple[str, str], list[Warning]] = {}
    for trial in trials:
        for warning in trial.warnings:
            what = re.sub(r"\b[\d.,]+", "#", warning.message)
            alike.setdefault((warning.code, what), []).append(warning)
    for first, *others in alike.values():
        count = f" (in {len(others) + 1} trials)" if others else ""
        yield replace(first, message=first.message + count)
