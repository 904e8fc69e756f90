"""Inject faults into volumes that are up, now or by a schedule, and clear them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from pgstow.emulate import process, volumes
from pgstow.emulate.control import Control, Injected, RefusedError
from pgstow.emulate.faults import Error, Fault, PowerLoss, Slow
from pgstow.emulate.observation import observe
from pgstow.emulate.state import StateDirectory, nothing_up, unknown_volume
from pgstow.emulate.status import EmulatorStatus, read_status
from pgstow.host import loops, mounts
from pgstow.model.errors import UserError
from pgstow.toml_file import parse_tables, read_text
from pgstow.units import format_exact_size, parse_duration, parse_size

_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)
_FAULT_TYPES: dict[str, type] = {
    str(field.default): one
    for one in get_args(get_args(Fault)[0])
    for field in fields(one)
    if field.name == "kind"
}
_TIMES = ("at", "for")
_SIZES = ("offset", "length", "sector_bytes")


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault and when it begins; ``volumes`` of None are all, ``for_s`` of None: until cleared.

    ``after_s`` is from when it is handed over.
    """

    fault: Fault
    volumes: tuple[str, ...] | None = None
    after_s: float = 0.0
    for_s: float | None = None


def fault_types() -> tuple[str, ...]:
    """The names of the faults."""
    return tuple(_FAULT_TYPES)


def parse_fault(values: Mapping[str, Any], where: str) -> Fault:
    """A fault from its kind and options; a mistake is one line that begins with ``where``.

    Sizes may be text with a unit.
    """
    kind = values.get("kind")
    if kind not in _FAULT_TYPES:
        what = "is missing" if kind is None else f"{kind!r} is no fault"
        raise UserError(f"{where}kind: {what}", f"use one of: {', '.join(_FAULT_TYPES)}")
    known = [field.name for field in fields(_FAULT_TYPES[kind])]
    for key in values:
        if key not in known:
            options = ", ".join(name for name in known if name != "kind") or "none"
            raise UserError(f"{where}{key}: {kind} has no such option", f"it has: {options}")
    plain = {key: _size(key, value, where) for key, value in values.items()}
    try:
        return _FAULT.validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        option = first["loc"][1] if len(first["loc"]) > 1 else ""
        problem = "is missing" if first["type"] == "missing" else first["msg"].lower()
        raise UserError(
            f"{where}{option}: {problem}", f"see pgstow emulate fault {kind} -h"
        ) from None


def describe_fault(fault: Fault) -> str:
    """A fault as text: its kind, and options other than the defaults.

    >>> describe_fault(parse_fault({"kind": "slow", "factor": 4}, ""))
    'slow, factor 4'
    """
    match fault:
        case PowerLoss():
            tear = f" at {fault.sector_bytes} B" if fault.loss == "torn" else ""
            return f"{fault.kind}, {fault.loss}{tear}"
        case Slow():
            return f"{fault.kind}, factor {fault.factor:g}"
        case Error():
            begin, end = fault.offset, "the end"
            if fault.length is not None:
                end = format_exact_size(fault.offset + fault.length)
            extent = f" from {format_exact_size(begin)} to {end}" if begin or fault.length else ""
            return f"{fault.kind} on {', '.join(fault.operations)}{extent}"
        case _:
            return fault.kind


def _size(key: str, value: Any, where: str) -> Any:
    if key not in _SIZES or not isinstance(value, str):
        return value
    try:
        return int(value) if value.isdigit() else parse_size(value)
    except ValueError as error:
        raise UserError(f"{where}{key}: {error}") from error


def read_schedule(path: Path) -> tuple[Planned, ...]:
    """The faults of a TOML file: a list of ``[[faults]]``, each with its kind and times."""
    document = parse_tables(read_text(path, "schedule"), str(path))
    entries = document.get("faults")
    if not isinstance(entries, list) or not entries or set(document) != {"faults"}:
        example = '[[faults]] at = "10s" for = "5s" kind = "stall" volumes = ["data"]'
        raise UserError(f"{path}: is no list of faults", f"write entries like {example}")
    return tuple(_planned(entry, f"{path}: faults[{n}].") for n, entry in enumerate(entries))


def _planned(entry: Any, where: str) -> Planned:
    if not isinstance(entry, dict):
        raise UserError(f"{where.rstrip('.')}: is no table", "write it as [[faults]]")
    times = {key: _seconds(entry[key], f"{where}{key}") for key in _TIMES if key in entry}
    names = entry.get("volumes")
    if names is not None and not (
        isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    ):
        raise UserError(f"{where}volumes: is no list of names", 'write it like ["data"]')
    rest = {key: value for key, value in entry.items() if key not in (*_TIMES, "volumes")}
    fault = parse_fault(rest, where)
    volumes = None if names is None else tuple(names)
    return Planned(fault, volumes, times.get("at", 0.0), times.get("for"))


def _seconds(value: Any, where: str) -> float:
    if not isinstance(value, str):
        raise UserError(f"{where}: a time is text with its unit", 'write it like "10s"')
    try:
        return parse_duration(value)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def inject(state_directory: Path, planned: Sequence[Planned]) -> tuple[Injected, ...]:
    """Give faults to the server, which times them; if one is wrong, all are refused."""
    directory = StateDirectory(state_directory)
    status = _running(directory)
    up = {volume.name: volume for volume in status.volumes}
    for one in planned:
        for name in one.volumes or ():
            if name not in up:
                raise unknown_volume(name, up)
        concerned = up.values() if one.volumes is None else [up[name] for name in one.volumes]
        for volume in concerned:
            if one.fault.kind == "power-loss" and not volume.volatile:
                what = f"volume {volume.name} has no writes that a power loss could take"
                raise UserError(what, "let it first: pgstow emulate volatile on")
    control = Control(directory.control)
    return tuple(_hand_over(control, one) for one in planned)


def _hand_over(control: Control, one: Planned) -> Injected:
    try:
        return control.fault(one.fault, one.volumes, after_s=one.after_s, for_s=one.for_s)
    except RefusedError as error:
        raise UserError(error.reason) from error


def clear_faults(state_directory: Path, fault_id: int | None, *, remount: bool = False) -> None:
    """End one fault, or all, also those that have not begun.

    ``remount`` then mounts every volume anew, as after a reboot: a filesystem that met errors has
    shut itself down and stays so.
    """
    directory = StateDirectory(state_directory)
    status = _running(directory)
    known = [fault.id for fault in status.faults]
    if fault_id is not None and fault_id not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise UserError(f"there is no fault {fault_id}", f"the present ones are: {numbers}")
    Control(directory.control).clear(fault_id)
    if remount:
        _remount(directory)


def _remount(directory: StateDirectory) -> None:
    with directory.locked():
        server = process.running(directory)
        recorded = directory.read()
        if server is None or recorded is None:
            return
        state = observe(directory, recorded, server)
        entries = sorted(state.volumes, key=lambda entry: Path(entry.volume.mount).parts)
        looped = [(entry, entry.loop.device) for entry in entries if entry.loop is not None]
        try:
            for _, device in reversed(looped):  # inner ones first
                for mount in mounts.mounts_of(device):
                    mounts.unmount(mount)
        finally:  # where one is in use, those before it have been unmounted
            for entry, device in looped:
                if entry.is_mounted and not mounts.mounts_of(device):
                    volumes.mount(entry.volume, device)


def set_volatile(state_directory: Path, enabled: bool) -> EmulatorStatus:
    """Switch on or off that a power loss takes what was not flushed.

    The kernel flushes what has a volatile cache. It does before anything can be lost, and as long
    as something can.
    """
    directory = StateDirectory(state_directory)
    _running(directory)
    with directory.locked():
        if enabled:
            _show_caches(directory, is_volatile=True)
        Control(directory.control).set_volatile(enabled)
        if not enabled:
            _show_caches(directory, is_volatile=False)
    return read_status(directory.path)


def _show_caches(directory: StateDirectory, *, is_volatile: bool) -> None:
    state = directory.read()
    for entry in () if state is None else state.volumes:
        if entry.loop is not None and loops.is_attached(entry.loop):
            volumes.show_cache(entry.loop, entry.device, is_volatile=is_volatile)


def _running(directory: StateDirectory) -> EmulatorStatus:
    status = read_status(directory.path)
    if not status.is_running:
        raise nothing_up(directory.path)
    return status
