"""Run the system's programs, with errors that name the program and what to install."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from pgstow.model.errors import HostError, UserError

# Debian leaves these off the PATH of ordinary users and of some services.
_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")

# Debian and Ubuntu packages of the programs pgstow may start.
_PACKAGES = {
    "blkid": "util-linux",
    "btrfs": "btrfs-progs",
    "fio": "fio",
    "fusermount3": "fuse3",
    "losetup": "mount",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "modprobe": "kmod",
    "mount": "mount",
    "nbdfuse": "libnbd-bin",
    "nbdkit": "nbdkit",
    "pg_repack": "postgresql-NN-repack",
    "pgbench": "postgresql",
    "qemu-storage-daemon": "qemu-system-common",
    "resize2fs": "e2fsprogs",
    "setpriv": "util-linux",
    "sysbench": "sysbench",
    "umount": "mount",
    "xfs_growfs": "xfsprogs",
}

# What no package has.
_OTHERWISE = {"go-tpc": "install it: go install github.com/pingcap/go-tpc/cmd/go-tpc@latest"}

_KILL_WAIT_S = 2.0


def find(program: str) -> str | None:
    """The full path of a program, looked for on PATH and where Debian keeps system programs."""
    path = os.environ.get("PATH", os.defpath)
    return shutil.which(program, path=os.pathsep.join((path, *_SYSTEM_DIRECTORIES)))


def remedy(program: str) -> str:
    """What to do where a program is missing."""
    if program in _OTHERWISE:
        return _OTHERWISE[program]
    package = _PACKAGES.get(program)
    return f"install it: apt-get install {package}" if package else "install it or add it to PATH"


def require(program: str) -> str:
    """The full path of a program, or an error that says how to get it."""
    path = find(program)
    if path is None:
        raise HostError(f"{program} is not installed", remedy(program))
    return path


def run(
    arguments: Sequence[str],
    *,
    timeout_s: float,
    input: str | None = None,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
    own_session: bool = False,
) -> str:
    """Run a program to its end and give its standard output.

    ``user`` runs it as that user, with that user's primary group only and from ``/``, since the
    caller's directory may be closed to them. A program that cannot be killed (it waits for a
    dead device) is left behind after the timeout rather than waited for. With ``own_session`` a
    terminal's Ctrl-C does not reach it: that is for the caller alone.
    """
    program, *rest = arguments
    path = program if "/" in program else require(program)
    identity = None if user is None else user_ids(user)
    try:
        process = subprocess.Popen(
            [path, *rest],
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C"} | dict(environment or {}),
            text=True,
            errors="replace",
            cwd=None if identity is None else "/",
            user=None if identity is None else identity[0],
            group=None if identity is None else identity[1],
            extra_groups=None if identity is None else [],
            start_new_session=own_session,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostError(f"{program} did not start: {reason}") from error
    return _finish(process, program, timeout_s, input)


def _finish(
    process: "subprocess.Popen[str]", program: str, timeout_s: float, input: str | None
) -> str:
    try:
        output, errors = process.communicate(input, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise HostError(f"{program} did not end within {timeout_s:g} s") from error
    except BaseException:
        _kill(process)
        raise
    if process.returncode != 0:
        lines = (errors.strip() or output.strip()).splitlines()
        detail = lines[-1] if lines else f"exit status {process.returncode}"
        name = program.rsplit("/", 1)[-1]
        itself = re.compile(rf"^(\S*/)?{re.escape(name)}: ")  # it is named already
        raise HostError(f"{name} failed: {itself.sub('', detail, count=1)}")
    return output


def _kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    try:
        process.communicate(timeout=_KILL_WAIT_S)
    except subprocess.TimeoutExpired:
        return


def user_ids(user: str) -> tuple[int, int]:
    """A user's uid and primary gid."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise UserError(f"user {user!r} does not exist", "name a user of this machine") from error
    return entry.pw_uid, entry.pw_gid
