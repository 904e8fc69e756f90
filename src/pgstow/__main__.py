"""The program's entry point: Ctrl-C ends it quietly, also while its modules are still read."""

import os
import signal
from types import FrameType


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"pgstow: interrupted\n")
    os._exit(130)  # nothing is open yet that would want closing


def main() -> None:
    """Run the command line; it takes Ctrl-C over once it can clean up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from pgstow.cli import main as run

    run()


if __name__ == "__main__":
    main()
