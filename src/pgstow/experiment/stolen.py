"""Processor time that a hypervisor kept from a trial: with much of it, another load was measured.

It is a share of the time for which work was ready, so that it does not grow with the processors
that a treatment needs.
"""

from pgstow.model import CpuUse, Instruments, Trial, Warning

STOLEN = "stolen"  # the code of a trial's warning
_TOO_MUCH = 0.05
_LEAST_CORES = 0.1  # where hardly anything is computed, hardly anything can be taken


def share(trial: Trial) -> float:
    """The share of the processor time it wanted that was taken; 0 where nothing is known of it."""
    return _share(trial.instruments.cpu)


def _share(cpu: CpuUse | None) -> float:
    if cpu is None or cpu.stolen_cores is None:
        return 0.0
    return cpu.stolen_cores / max(cpu.busy_cores + cpu.stolen_cores, _LEAST_CORES)


def warnings(found: Trial | Instruments) -> tuple[Warning, ...]:
    """What is to be said of it, if anything."""
    cpu = found.instruments.cpu if isinstance(found, Trial) else found.cpu
    if (taken := _share(cpu)) <= _TOO_MUCH:
        return ()
    return (
        Warning(
            STOLEN,
            f"a hypervisor kept {taken:.0%} of the processor time that a trial wanted: other "
            "machines' load was measured too",
            "measure while the host is quiet (--repeats), or on a machine of your own",
        ),
    )
