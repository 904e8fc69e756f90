"""Cut the power under PostgreSQL many times, and check that it keeps every commit."""

from pgstow.emulate.crash_test.campaign import DEFAULT_DIRECTORY, run
from pgstow.emulate.crash_test.plan import CampaignPlan, Combination, make_plan
from pgstow.emulate.crash_test.result import CampaignResult, CombinationResult, Cut, Findings

__all__ = [
    "DEFAULT_DIRECTORY",
    "CampaignPlan",
    "CampaignResult",
    "Combination",
    "CombinationResult",
    "Cut",
    "Findings",
    "make_plan",
    "run",
]
