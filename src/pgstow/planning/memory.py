"""Another instance's memory: what its caches would leave for the devices to read."""

from pgstow.catalog.catalog import Catalog
from pgstow.model import HostSpec, Profile, UserError, Warning
from pgstow.prediction import CacheSize, Workload
from pgstow.units import format_size

_CACHE_SHARE = 0.75  # of memory: what effective_cache_size is commonly set to
_SAME = 0.2  # by so much a machine's memory may differ from what its instance type has


def cache_on(profile: Profile, instance: str | None, catalog: Catalog) -> CacheSize | None:
    """The cache there is and that of another instance; None where there is nothing to compare.

    Of a host that was not seen the device reads are not known; one whose memory is not its
    instance's is a container or an emulation, whose memory another instance does not change.
    """
    host = profile.layout.host
    if instance is None or instance == host.instance or profile.host is None:
        return None
    present = catalog.memory_bytes(host)
    planned = catalog.memory_bytes(HostSpec(host.platform, host.region, instance))
    if present is None or planned is None or planned == present:
        return None
    if abs(profile.host.memory_bytes / present - 1) > _SAME:
        return None
    return CacheSize(round(present * _CACHE_SHARE), round(planned * _CACHE_SHARE))


def cache_of(memory_bytes: int, profile: Profile) -> CacheSize:
    """The cache there is and that of another memory.

    Raises UserError where the host was not seen: its device reads are then not known.
    """
    if profile.host is None:
        raise UserError(
            "the profile does not say which reads the present memory serves",
            "observe on the server's own machine to ask about another memory",
        )
    present = profile.host.memory_bytes
    return CacheSize(round(present * _CACHE_SHARE), round(memory_bytes * _CACHE_SHARE))


def unknown_warnings(cache: CacheSize, profile: Profile) -> tuple[Warning, ...]:
    """A warning where all data fit in memory now and would not then: no miss was seen yet."""
    stored = sum(relation.size_bytes for relation in profile.server.relations)
    if not cache.target_bytes < stored <= cache.present_bytes:
        return ()
    now, then = _sizes(cache)
    return (
        Warning(
            "other-memory",
            f"{now} of memory hold all data and {then} would not: how many more reads that means "
            "the profile cannot say, and they are left out",
            "plan for an instance with as much memory, or measure there with pgstow verify",
        ),
    )


def _sizes(cache: CacheSize) -> tuple[str, str]:
    """The present memory and the planned one."""
    now, then = cache.present_bytes / _CACHE_SHARE, cache.target_bytes / _CACHE_SHARE
    return format_size(now), format_size(then)


def memory_warnings(cache: CacheSize, planned: Workload, seen: Workload) -> tuple[Warning, ...]:
    """What the other memory does to the reads, and how that is known."""
    before, after = (
        sum(work.reads + work.sequential_reads for work in load.relations)
        for load in (seen, planned)
    )
    if before <= 0:
        return ()
    now, then = _sizes(cache)
    return (
        Warning(
            "other-memory",
            f"with {then} of memory in place of {now}, {after / before:,.2f} times as many device "
            "reads are expected, by a miss-ratio curve fitted to the profile",
            "measure there with pgstow verify before you rely on it",
        ),
    )
