"""How full a predicted layout's limits are at the speed that was asked for.

A prediction is of clients that ask as fast as they are answered, which fills limits further than
the goal's speed does: headroom is of the latter.
"""

from dataclasses import dataclass

from pgstow.model import Plan, Prediction


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The limit that is used most at ``tps``: a share of it."""

    tps: float
    used: float
    where: str  # "volume fast", "host cap"


def bottleneck_at(prediction: Prediction, tps: float) -> Bottleneck:
    """The fullest limit of a layout's volumes and their host, scaled from the predicted speed."""
    shares = [(load.utilisation, f"volume {load.volume}") for load in prediction.volumes]
    shares.append((prediction.host_utilisation or 0.0, "the instance's storage cap"))
    used, where = max(shares)
    speed = prediction.performance.tps
    return Bottleneck(tps, used * tps / speed if speed > 0 else used, where)


def bottleneck(plan: Plan) -> Bottleneck | None:
    """The same of a plan, at the speed that it is for; None where it is for none."""
    if plan.bound is None or plan.bound.acceptance is None:
        return None
    return bottleneck_at(plan.prediction, plan.bound.acceptance.tps)
