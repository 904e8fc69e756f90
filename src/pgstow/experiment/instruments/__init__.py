"""Measurements beside a load: server statistics, wait events, devices, processors."""

from pgstow.experiment.instruments.recorder import Recorder

__all__ = ["Recorder"]
