"""What is read beside a load: the server's statistics, its waits, the devices, the processors."""

from pgstow.experiment.instruments.recorder import Recorder

__all__ = ["Recorder"]
