"""The content platform's mixed workload: its scripts, weighted for the document's rates."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pgstow.experiment.workloads.content_platform.tables import CATEGORIES, DAYS, Extent, documented
from pgstow.experiment.workloads.scripts import Script, WorkloadSpec

NAME = "content-platform"
_WEIGHT_PER_TRANSACTION_S = 4  # weights are whole numbers, and the rarest script has 3 a second


@dataclass(frozen=True, slots=True)
class Part:
    """A script, the documented rate it stands for, and how much of that one transaction does.

    ``rate`` is the document's per second of ``relation``: rows read by way of it, or rows written.
    """

    script: str
    relation: str
    rate: float
    per_transaction: int
    writes: bool

    @property
    def transactions_per_s(self) -> float:
        """How many of these make up the documented rate."""
        return self.rate / self.per_transaction


def _reads(script: str, relation: str, per_transaction: int = 1) -> Part:
    return Part(script, relation, documented(relation).reads_per_s, per_transaction, writes=False)


def _writes(script: str, relation: str, per_transaction: int = 1) -> Part:
    return Part(script, relation, documented(relation).writes_per_s, per_transaction, writes=True)


# The two indexes' lookups have the document's rates, and each fetches its row from articles.
PARTS = (
    _reads("read_articles", "articles_pkey", 8),
    _reads("browse_categories", "articles_cat_pub", 8),
    _writes("record_events", "analytics_events", 10),
    _reads("read_daily", "analytics_daily", 8),
    _writes("update_article", "articles"),
    _writes("count_daily", "analytics_daily"),
    _reads("read_events", "analytics_events_ts"),
    _reads("read_subscription", "subscriptions"),
    _reads("read_old_article", "old_articles"),
    _writes("renew_subscription", "subscriptions"),
)


def workload(extent: Extent, *, clients: int = 64, threads: int = 2) -> WorkloadSpec:
    """The mixed workload on tables of that extent."""
    directory = Path(str(files("pgstow").joinpath("data/content-platform")))
    scripts = tuple(
        Script(
            name=part.script,
            path=directory / f"{part.script}.sql",
            weight=round(part.transactions_per_s * _WEIGHT_PER_TRANSACTION_S),
        )
        for part in PARTS
    )
    return WorkloadSpec(NAME, scripts, variables(extent), clients, threads)


def variables(extent: Extent) -> tuple[tuple[str, int], ...]:
    """What the scripts need to know of the tables."""
    return (
        ("articles", extent.articles),
        ("categories", CATEGORIES),
        ("daily_articles", extent.daily_articles),
        ("days", DAYS),
        ("events", extent.events),
        ("hours", extent.hours),
        ("old_articles", extent.old_articles),
        ("subscriptions", extent.subscriptions),
    )
