"""How full a predicted layout's limits are at the goal's speed.

A prediction is of clients that ask as fast as they are answered, which fills limits further than
the goal's speed does: headroom is of the latter.
"""

from dataclasses import dataclass

from pgstow.model import Plan, Prediction


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The limit with the highest utilisation at ``tps``; ``used`` is that utilisation."""

    tps: float
    used: float
    where: str  # "volume fast", "host cap"


def bottleneck_at(prediction: Prediction, tps: float) -> Bottleneck:
    """The bottleneck of a layout's volumes and host, scaled from the predicted speed."""
    shares = [(load.utilisation, f"volume {load.volume}") for load in prediction.volumes]
    shares.append((prediction.host_utilisation or 0.0, "the instance's storage cap"))
    used, where = max(shares)
    speed = prediction.performance.tps
    return Bottleneck(tps, used * tps / speed if speed > 0 else used, where)


def bottleneck(plan: Plan) -> Bottleneck | None:
    """The bottleneck of a plan at its goal's speed; None where the goal has none."""
    if plan.bound is None or plan.bound.acceptance is None:
        return None
    return bottleneck_at(plan.prediction, plan.bound.acceptance.tps)
