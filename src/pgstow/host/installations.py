"""PostgreSQL's programs on this machine, by major version."""

from pathlib import Path

from pgstow.host.server import find_embedded
from pgstow.model.errors import UserError

# Where the packages of Debian and Ubuntu, and those of Red Hat, have them.
_PATTERNS = ("/usr/lib/postgresql/{version}/bin", "/usr/pgsql-{version}/bin")
_VERSIONS = range(14, 31)


def find_bindir(version: int) -> Path | None:
    """The directory of a version's programs: the embedded server's, else an installed one's."""
    candidates = [Path(pattern.format(version=version)) for pattern in _PATTERNS]
    installed = [bindir for bindir in candidates if (bindir / "initdb").exists()]
    return find_embedded(version) or (installed[0] if installed else None)


def require_bindir(version: int) -> Path:
    """The directory of a version's programs, or an error that says how to get them."""
    bindir = find_bindir(version)
    if bindir is None:
        known = [str(other) for other in _VERSIONS if find_bindir(other) is not None]
        have = f"this machine has {', '.join(known)}" if known else "this machine has none"
        raise UserError(
            f"PostgreSQL {version} is not installed, and {have}",
            f"apt-get install postgresql-{version}, or pip install 'pgstow[demo]' for 16 and 18",
        )
    return bindir


def newest_bindir() -> Path | None:
    """The newest version's programs: its clients work with every server."""
    found = [find_bindir(version) for version in reversed(_VERSIONS)]
    return next((bindir for bindir in found if bindir is not None), None)
