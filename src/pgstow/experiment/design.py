"""The design of an experiment: which treatment runs when.

Chance alone decides the order within a block, so that what changes with time meets all treatments
alike.
"""

import hashlib

from pgstow.model import Experiment, Treatment
from pgstow.units import Seconds

Block = tuple[Treatment, ...]

SET_UP_S = 8.0  # volumes, a copy of the data and the server's start, on a machine of two cores


def block_order(experiment: Experiment, block: int) -> Block:
    """The treatments of one block, the first of which is 0, in the order of their random keys.

    A treatment's random key depends only on the seed, the block and its levels. So more blocks can
    be added to a run, and leaving a level out keeps the order of the others.
    """

    def random_key(treatment: Treatment) -> bytes:
        text = repr((experiment.seed, block, treatment.levels))
        return hashlib.sha256(text.encode()).digest()

    return tuple(sorted(experiment.treatments, key=random_key))


def order(experiment: Experiment) -> tuple[Block, ...]:
    """Every block's treatments in random order: each block has each of them once."""
    return tuple(block_order(experiment, block) for block in range(experiment.blocks))


def length_s(experiment: Experiment, set_up_s: float = SET_UP_S) -> Seconds:
    """About how long the whole takes, with ``set_up_s`` before each trial."""
    trials = [
        set_up_s + one.schedule.settle_s + one.schedule.warm_up_s + one.schedule.duration_s
        for one in experiment.treatments
    ]
    block_s = max(trials) if experiment.side_by_side else sum(trials)
    return Seconds(experiment.blocks * block_s)
