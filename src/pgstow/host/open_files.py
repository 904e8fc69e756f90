"""How many files a program may have open: a load generator has one for each client."""

import resource

from pgstow.model.errors import HostError


def allow(count: int) -> None:
    """Let the programs started from now on have so many files open; HostError if they may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard not in (resource.RLIM_INFINITY, -1) and hard < count:
        raise HostError(
            f"{count} open files are needed, and the limit is {hard}",
            f"raise it: ulimit -n {count}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
