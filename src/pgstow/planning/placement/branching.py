"""Branch and bound: which candidates are bought, where large units are placed, and the bound.

At a node some candidates are bought and some are not, some large units are placed on a candidate
and some are not, the rest is open. Its bound is the relaxation's. A node whose bound is close to
the best price found is not looked into further.
"""

import heapq
import itertools
from dataclasses import dataclass, field

import numpy as np

from pgstow.planning.placement.master import Fixed, Master, RelaxationSolution
from pgstow.planning.placement.problem import Bools, Floats, PlacementSolution
from pgstow.planning.placement.recovery import QUICK, ROUNDED, THOROUGH, Step, recover
from pgstow.planning.placement.sizing import steps_usd

_INTEGRAL = 1e-5
_ALMOST = 0.9  # bought to so much of it, a volume is not tried without
_FAR = 0.01  # of the price; mostly the gap is a hundredth of that
_THOROUGH_NODES = 100
_FULL = 0.01  # of some group is not placed
_NOT_WORTH_USD = 0.10  # about what whole GiB cost, which no bound knows of, as of types' steps
_ROOT_ROUNDS, _ROUNDS = 30, 6
_REPEATS = 5  # of rounds, while not everything is placed and the node is not bounded


@dataclass(order=True, slots=True)
class _Node:
    bound_usd: float
    number: int
    lower: Floats = field(compare=False)
    upper: Floats = field(compare=False)
    fixed: Fixed = field(compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Promising:
    """Volumes that could be the best, by the relaxation on them."""

    usd: float
    is_open: Bools
    fixed: Fixed


@dataclass(slots=True)
class Search:
    """One search; ``gap`` is the share of the price that is not worth looking for.

    With ``within_usd`` it ends at the first answer that costs no more.
    """

    master: Master
    gap: float
    node_limit: int
    best: PlacementSolution | None = None
    within_usd: float | None = None
    nodes: int = 0
    tried: set[tuple[object, ...]] = field(default_factory=set)
    promising: "_Promising | None" = None

    def run(self) -> float:
        """Search; the bound over all choices, infinite where there is none.

        Where the best is then not close to the bound, the most promising choice of volumes is tried
        once more, and where it is far from it more thoroughly.
        """
        bound = self._search()
        if self.promising is not None and not (self._is_enough() or self._is_fathomed(bound)):
            is_far = self.best is not None and self.best.usd_month > bound * (1 + _FAR)
            is_thorough = is_far and self.node_limit >= _THOROUGH_NODES
            steps = THOROUGH if is_thorough else QUICK
            self._recover(self.promising.is_open, self.promising.fixed, bound, steps)
        return bound

    def _search(self) -> float:
        candidates = len(self.master.problem.candidates)
        numbers = itertools.count()
        heap = [_Node(-np.inf, next(numbers), np.zeros(candidates), np.ones(candidates), {})]
        closed = np.inf
        while heap:
            node = heapq.heappop(heap)
            is_over = self._is_enough() or self.nodes >= self.node_limit
            if is_over or self._is_fathomed(node.bound_usd):
                return min(closed, node.bound_usd)  # the least of those left
            self.nodes += 1
            relaxed = self._relax(node)
            bound = max(node.bound_usd, relaxed.bound_usd)
            if relaxed.is_placed and not self._is_fathomed(bound):
                self._round(relaxed, node)
            # where not all fits with everything open, it fits on no branch either
            is_full = relaxed.artificial > _FULL and self._is_converged(relaxed)
            if self._is_fathomed(bound) or is_full:
                closed = min(closed, bound)
                continue
            children = self._branch(node, relaxed)
            if not children:
                closed = min(closed, bound)
            for lower, upper, fixed in children:
                heapq.heappush(heap, _Node(bound, next(numbers), lower, upper, fixed))
        return closed

    def _is_enough(self) -> bool:
        if self.best is None or self.within_usd is None:
            return False
        return self.best.usd_month <= self.within_usd

    def _is_fathomed(self, bound: float) -> bool:
        if self.within_usd is not None and bound > self.within_usd:
            return True
        if self.best is None:
            return bound == np.inf  # nothing is possible there
        usd = self.best.usd_month
        steps = steps_usd(self.master.problem, self.best.volumes)
        return bound >= usd - max(self.gap * usd, _NOT_WORTH_USD + steps)

    def _is_converged(self, relaxed: RelaxationSolution) -> bool:
        return relaxed.usd - relaxed.bound_usd <= self.gap * abs(relaxed.usd)

    def _relax(self, node: _Node) -> RelaxationSolution:
        self.master.bound(node.lower, node.upper, node.fixed)
        rounds = _ROOT_ROUNDS if node.number == 0 else _ROUNDS
        is_open = node.upper > 0.5
        relaxed = self.master.relax(is_open, rounds=rounds, gap=self.gap / 4)
        for _ in range(_REPEATS):
            is_over = self._is_converged(relaxed) or self._is_fathomed(relaxed.bound_usd)
            if relaxed.is_placed or is_over:
                break
            relaxed = self.master.relax(is_open, rounds=_ROUNDS, gap=self.gap / 4)
        return relaxed

    def _round(self, relaxed: RelaxationSolution, node: _Node) -> None:
        """Buy what the relaxation uses a part of, and place everything on it."""
        problem = self.master.problem
        is_open = relaxed.y > _INTEGRAL
        for group in problem.groups:
            used = [c for c in group if is_open[c]]
            for c in sorted(used, key=lambda c: -relaxed.y[c])[1:]:
                is_open[c] = False
        if is_open.sum() > problem.max_volumes:
            ranked = np.argsort(-relaxed.y + 2 * ~is_open - 2 * (node.lower > 0.5))
            is_open[:] = False
            is_open[ranked[: problem.max_volumes]] = True
        decided = relaxed.fractional is None
        key = (*is_open.tolist(), *(sorted(node.fixed.items()) if decided else ()))
        if key in self.tried:
            return
        self.tried.add(key)
        is_open = self._fewer(is_open, relaxed.y < _ALMOST, node.fixed)
        steps = QUICK if decided or self.best is None else ROUNDED
        self._recover(is_open, node.fixed, max(node.bound_usd, relaxed.bound_usd), steps)

    def _fewer(self, is_open: Bools, doubtful: Bools, fixed: Fixed) -> Bools:
        """Close, one after the other, the candidates without which the known columns cost less."""
        if not (is_open & doubtful).any():
            return is_open
        bounds = is_open.astype(float)
        self.master.bound(bounds, bounds, fixed)
        usd = self.master.relax(is_open, rounds=0, gap=self.gap).usd
        for candidate in np.nonzero(is_open & doubtful)[0].tolist():
            if is_open.sum() == 1:
                break
            without = is_open.copy()
            without[candidate] = False
            bounds = without.astype(float)
            self.master.bound(bounds, bounds, fixed)
            relaxed = self.master.relax(without, rounds=0, gap=self.gap)
            if relaxed.is_placed and relaxed.usd < usd:
                usd, is_open = relaxed.usd, without
        return is_open

    def _recover(
        self, is_open: Bools, fixed: Fixed, bound_usd: float, steps: tuple[Step, ...]
    ) -> None:
        bounds = is_open.astype(float)
        self.master.bound(bounds, bounds, fixed)
        relaxed = self.master.relax(is_open, rounds=4, gap=self.gap / 4)
        if not relaxed.is_placed or self._is_fathomed(relaxed.usd):
            return
        gap_usd = self.gap / 2 * abs(relaxed.usd)
        objective_target = bound_usd + max(self.gap * abs(bound_usd), _NOT_WORTH_USD) * 0.9
        placed = recover(
            self.master,
            is_open,
            relaxed.dual_prices,
            gap_usd=gap_usd,
            objective_target=objective_target,
            steps=steps,
        )
        if self.promising is None or relaxed.usd < self.promising.usd:
            self.promising = _Promising(relaxed.usd, is_open, fixed)
        if placed is not None and (self.best is None or placed.usd_month < self.best.usd_month):
            self.best = placed

    def _branch(
        self, node: _Node, relaxed: RelaxationSolution
    ) -> list[tuple[Floats, Floats, Fixed]]:
        """The two branches of a node; none where nothing is fractional."""
        part = np.minimum(relaxed.y, 1 - relaxed.y)
        part[node.lower == node.upper] = 0.0
        candidate = int(np.argmax(part))
        if part[candidate] > _INTEGRAL:
            without, bought = node.upper.copy(), node.lower.copy()
            without[candidate], bought[candidate] = 0.0, 1.0
            return [(node.lower, without, node.fixed), (bought, node.upper, node.fixed)]
        if relaxed.fractional is None:
            return []
        return [
            (node.lower, node.upper, node.fixed | {relaxed.fractional: value})
            for value in (1.0, 0.0)
        ]
