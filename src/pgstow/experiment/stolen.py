"""Processor time that a hypervisor kept from a trial: with much of it, another load was measured.

What is too much is told from no outcome of a trial, so measuring again favours no treatment.
"""

from pgstow.model import CpuUse, Warning

STOLEN = "stolen"  # the code of a trial's warning
_TOO_MUCH = 0.02  # of the processors


def share(cpu: CpuUse | None) -> float:
    """The share of the processors' time that was taken; 0 where nothing is known of it."""
    return 0.0 if cpu is None or cpu.stolen_cores is None else cpu.stolen_cores / cpu.cores


def warnings(cpu: CpuUse | None) -> tuple[Warning, ...]:
    """What is to be said of it, if anything."""
    if (taken := share(cpu)) <= _TOO_MUCH:
        return ()
    return (
        Warning(
            STOLEN,
            f"the hypervisor took {taken:.0%} of the processors in a trial: it measured other "
            "machines' load too",
            "measure while the host is quiet (--repeats), or on a machine of your own",
        ),
    )
