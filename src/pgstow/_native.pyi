"""The extension module: the emulator's server, the device model, the simulator."""

from typing import Literal

def serve(config_json: str) -> None:
    """Serve emulated volumes until told to end by a command, SIGTERM or SIGINT, or unmounted.

    Other threads run meanwhile. Raises ValueError for an impossible configuration, OSError where
    the system refuses; the message is one line. docs/emulator-protocol.md has the configuration.
    """

def trace(
    device_json: str,
    host_cap_json: str | None,
    ops: list[tuple[int, Literal["read", "write", "flush"], int, int]],
    seed: int,
) -> list[int]:
    """When the device model completes each operation, in nanoseconds.

    ``ops`` are (now in ns, kind, offset, length) in the order of their times.
    """

def simulate(config_json: str) -> str:
    """Simulate PostgreSQL on a layout's devices in virtual time: JSON in, JSON out.

    Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
    """

def replay(config_json: str) -> str:
    """Run a recorded trace again on devices in virtual time: JSON in, JSON out.

    Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
    """

def forecast(config_json: str) -> str:
    """Credits and limits under synthetic loads in virtual time: JSON in, JSON out.

    Other threads run meanwhile, and Ctrl-C ends it. Raises ValueError for an impossible input.
    """
