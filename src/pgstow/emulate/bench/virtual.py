"""The rows that run on the virtual clock: how long gp2's credits last, and what comes then."""

from pgstow import catalog
from pgstow.model import HostSpec, LoadPhase, LoadPlan, SyntheticLoad, Volume
from pgstow.prediction.forecast import forecast
from pgstow.units import GIB, Bytes, Seconds

_HOUR = Seconds(3600.0)
_INTERVAL = Seconds(10.0)


def gp2_burst() -> tuple[float, float]:
    """Seconds that full credits of 100 GiB last at 3,000 IOPS, and the IOPS after that."""
    volume = Volume("gp2", "gp2", Bytes(100 * GIB), "/gp2")
    load = SyntheticLoad("gp2", (LoadPhase(_HOUR, iops=3000),), arrivals="constant", credits=1.0)
    plan = LoadPlan((load,), duration_s=_HOUR, interval_s=_INTERVAL)
    (answer,) = forecast(plan, [catalog.load().device(volume, HostSpec())], None).volumes
    empty_s = answer.credits_first_empty_s
    assert empty_s is not None, "credits of 2,000 seconds last an hour"
    series = answer.series
    after = [
        iops
        for end_s, iops in zip(series.end_s, series.served_iops, strict=True)
        if end_s - _INTERVAL > empty_s
    ]
    return empty_s, sum(after) / len(after)
