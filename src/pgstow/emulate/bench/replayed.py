"""One job recorded by the emulator and run again in virtual time: how far the two are apart."""

from collections.abc import Callable
from pathlib import Path

from pgstow import trace_file
from pgstow.emulate import watch
from pgstow.prediction.replay import replay

Differences = dict[str, float]


def record(state_directory: Path, trace: Path, work: Callable[[], None]) -> Differences:
    """Record what the volumes are asked while ``work`` runs, replay it, and compare.

    The keys are "read-mean", "read-p99" and so on; each value is the replay's latency less the
    recorded one, as a share of the recorded.
    """
    for file in (trace, trace_file.sidecar(trace)):
        file.unlink(missing_ok=True)
    watch.start_recording(state_directory, trace)
    try:
        work()
    finally:
        watch.stop_recording(state_directory)
    about = trace_file.read_recording(trace)
    answer = replay(
        trace,
        about.initial_devices(),
        about.initial_host(),
        compensation=about.compensation,
    )
    found: Differences = {}
    for volume in answer.volumes:
        for kind in volume.kinds:
            for name, value in (("mean", kind.mean_difference), ("p99", kind.p99_difference)):
                if value is not None:
                    found[f"{kind.kind}-{name}"] = value
    return found
