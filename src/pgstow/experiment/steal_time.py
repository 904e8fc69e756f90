"""Steal time: processor time that a hypervisor gave to others while a trial had work ready.

It is a share of the time for which work was ready, so that a treatment that computes more does
not get a larger share.
"""

from pgstow.model import CpuUse, Instruments, Trial, Warning

STOLEN = "stolen"  # the code of a trial's warning
_TOO_MUCH = 0.05
_LEAST_CORES = 0.1  # where hardly anything is computed, steal time says nothing


def share(trial: Trial) -> float:
    """Steal time as a share of the processor time that had work ready; 0 if it is not known."""
    return _share(trial.instruments.cpu)


def _share(cpu: CpuUse | None) -> float:
    if cpu is None or cpu.stolen_cores is None:
        return 0.0
    return cpu.stolen_cores / max(cpu.busy_cores + cpu.stolen_cores, _LEAST_CORES)


def warnings(found: Trial | Instruments) -> tuple[Warning, ...]:
    """A warning where the share is too large."""
    cpu = found.instruments.cpu if isinstance(found, Trial) else found.cpu
    if (stolen := _share(cpu)) <= _TOO_MUCH:
        return ()
    return (
        Warning(
            STOLEN,
            f"a hypervisor kept {stolen:.0%} of the processor time that a trial was ready to use: "
            "other machines' load was measured too",
            "measure while the host is quiet (--repeats), or on a machine of your own",
        ),
    )
