"""The extension module, built from crates/python."""

def simulate(config_json: str) -> str:
    """Simulate PostgreSQL on a layout's devices in virtual time: JSON in, JSON out."""

def serve(config_json: str) -> None:
    """Serve emulated volumes until told to stop; blocks."""

def trace(
    device_json: str,
    host_cap_json: str | None,
    ops: list[tuple[int, str, int, int]],
    seed: int,
) -> list[int]:
    """When a device finishes each of (now_ns, "read" | "write" | "flush", offset, length)."""
