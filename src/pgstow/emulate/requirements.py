"""What this machine needs for emulated volumes, and what of it is missing."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pgstow.emulate.filesystems import FILESYSTEM_TYPES
from pgstow.host import programs
from pgstow.model import Warning
from pgstow.model.errors import HostError
from pgstow.model.storage import Filesystem

_CAP_SYS_ADMIN = 21


def check_requirements(filesystems: Iterable[Filesystem] = ("xfs", "ext4")) -> tuple[Warning, ...]:
    """What is missing, each with its remedy; nothing where volumes can be emulated."""
    found = [_missing_right(), _missing_device("/dev/fuse", "fuse")]
    found.append(_missing_device("/dev/loop-control", "loop"))
    found += [_missing_program(name) for name in ("losetup", "mount", "umount")]
    for filesystem in sorted(set(filesystems)):
        found += [_missing_program(name) for name in FILESYSTEM_TYPES[filesystem].programs]
        found.append(_missing_filesystem(filesystem))
    found.append(_missing_server())
    return tuple(warning for warning in found if warning is not None)


def require(filesystems: Iterable[Filesystem]) -> None:
    """Raise one error for all that is missing."""
    missing = check_requirements(filesystems)
    if missing:
        problems = "; ".join(warning.message for warning in missing)
        remedies = "; ".join(warning.remedy for warning in missing)
        raise HostError(f"volumes cannot be emulated here: {problems}", remedies)


def _missing_right() -> Warning | None:
    if os.geteuid() != 0:
        return Warning("no-root", "this is not root", "run it with sudo")
    status = Path("/proc/self/status").read_text().splitlines()
    effective = next((line.split()[1] for line in status if line.startswith("CapEff:")), "0")
    if not int(effective, 16) >> _CAP_SYS_ADMIN & 1:
        return Warning(
            "no-mount-right",
            "root may not mount here (no CAP_SYS_ADMIN)",
            "run it outside the container, or in a privileged one",
        )
    return None


def _missing_device(path: str, module: str) -> Warning | None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return Warning(f"no-{module}", f"{path} does not exist", f"load it: modprobe {module}")
    except PermissionError:
        remedy = "run it as root, with access to that device"
        return Warning(f"no-{module}", f"{path} may not be opened", remedy)
    except OSError as error:
        message = f"{path} cannot be opened: {error.strerror}"
        return Warning(f"no-{module}", message, f"load it: modprobe {module}")
    return None


def _missing_program(name: str) -> Warning | None:
    if programs.find(name) is not None:
        return None
    return Warning(f"no-{name}", f"{name} is not installed", programs.remedy(name))


def _missing_filesystem(name: str) -> Warning | None:
    def registered() -> bool:
        lines = Path("/proc/filesystems").read_text().splitlines()
        return any(line.split()[-1] == name for line in lines)

    if registered():
        return None
    if os.geteuid() == 0 and programs.find("modprobe") is not None:
        with suppress(HostError):
            programs.run(["modprobe", "--", name], timeout_s=10)
        if registered():
            return None
    other = "ext4" if name == "xfs" else "xfs"
    return Warning(
        f"no-{name}-in-kernel",
        f"this kernel has no {name}",
        f'use filesystem = "{other}" in the layout, or a kernel with {name}',
    )


def _missing_server() -> Warning | None:
    try:
        from pgstow import _native
    except ImportError as error:
        message = f"the extension module does not load: {error}"
        return Warning("no-extension", message, "install the pgstow wheel of this platform")
    if hasattr(_native, "serve"):
        return None
    message = "the extension module has no emulator"
    return Warning("no-extension", message, "install a complete pgstow wheel")
