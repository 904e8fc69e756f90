"""Find PostgreSQL's own checker: the program pg_amcheck, and the extension that it calls.

A full installation has both. The embedded PostgreSQL has the program alone; from 18 on a server
takes the extension from another directory, of a build of the same major version.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from pgstow.host import programs
from pgstow.host.background import BackgroundProgram
from pgstow.host.server import EmbeddedServer, require_embedded
from pgstow.model.errors import HostError

_TIMEOUT_S = 120.0
_ENVIRONMENT = "PGSTOW_AMCHECK"
_PREPARED = Path(sys.prefix) / "share/pgstow/amcheck"  # where the project's own set-up puts it
_CONTROL_FILE = Path("extension/amcheck.control")
_REMEDY = (
    "name an installation that has it with --bindir, such as /usr/lib/postgresql/18/bin of"
    " postgresql-18, or the directory of a build's lib/ and share/extension with PGSTOW_AMCHECK"
)


@dataclass(frozen=True, slots=True)
class Checker:
    """A PostgreSQL that can be checked; ``extension`` is where amcheck is, None: in its own."""

    bindir: Path
    version: str
    extension: Path | None

    def settings(self, server: EmbeddedServer) -> dict[str, str]:
        """The server's settings that make it find the extension."""
        if self.extension is None:
            return {}
        copied = server.runtime_directory / "amcheck"
        return {
            "extension_control_path": f"$system:{copied / 'share'}",
            "dynamic_library_path": f"$libdir:{copied / 'lib'}",
        }

    def provide(self, server: EmbeddedServer) -> None:
        """Copy the extension to where the server's user may read it."""
        if self.extension is not None:
            copied = server.runtime_directory / "amcheck"
            shutil.copytree(self.extension, copied)
            if server.user is not None:
                for path in (copied, *copied.rglob("*")):
                    os.chown(path, *programs.user_ids(server.user))

    def install(self, server: EmbeddedServer) -> None:
        """Create the extension in every database."""
        complaints = self.check(server, "--install-missing")
        if complaints:
            raise HostError(f"pg_amcheck does not work here: {complaints[0]}")

    def check(self, server: EmbeddedServer, *options: str) -> tuple[str, ...]:
        """Check every table and B-tree of every database; what is wrong, a line each."""
        command = [str(self.bindir / "pg_amcheck"), "--all", "--jobs=2", "--no-password"]
        command += ["--heapallindexed", "--parent-check", "--username=postgres"]
        command += [f"--host={server.runtime_directory}", *options]
        with BackgroundProgram(command) as program:
            ended = program.wait(_TIMEOUT_S)
        if ended is None:
            return (f"pg_amcheck did not end within {_TIMEOUT_S:g} s",)
        if ended.status == 0:
            return ()
        lines = [*ended.output.splitlines(), *ended.errors.splitlines()]
        return tuple(line for line in lines if line.strip()) or (f"status {ended.status}",)


def find_checker(bindir: Path | None = None) -> Checker:
    """A PostgreSQL with all that the campaign needs, or an error that says what is missing."""
    chosen = bindir or require_embedded()
    if not (chosen / "pg_amcheck").exists():
        raise HostError(f"{chosen} has no pg_amcheck", _REMEDY)
    version = programs.run([str(chosen / "postgres"), "--version"], timeout_s=30).strip()
    share = programs.run([str(chosen / "pg_config"), "--sharedir"], timeout_s=30).strip()
    if (Path(share) / _CONTROL_FILE).exists():
        return Checker(chosen, version, None)
    given = os.environ.get(_ENVIRONMENT)
    extension = Path(given) if given else _PREPARED
    for needed in (extension / "share" / _CONTROL_FILE, extension / "lib/amcheck.so"):
        if not needed.exists():
            raise HostError(f"{version} in {chosen} has no extension amcheck", _REMEDY)
    return Checker(chosen, version, extension)
