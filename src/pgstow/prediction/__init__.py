"""Prediction: throughput, latency, utilisation and price of a layout under a profile."""

from pgstow.prediction.cache import CacheSize
from pgstow.prediction.predict import Predictor, on_host, predict
from pgstow.prediction.simulation import HostOverhead, OpenLoad, Period, totals_by_volume
from pgstow.prediction.workload import (
    SEQUENTIAL_READ_BYTES,
    RelationWork,
    Workload,
    volumes_of_relations,
    workload_of,
)

__all__ = [
    "SEQUENTIAL_READ_BYTES",
    "CacheSize",
    "HostOverhead",
    "OpenLoad",
    "Period",
    "Predictor",
    "RelationWork",
    "Workload",
    "on_host",
    "predict",
    "totals_by_volume",
    "volumes_of_relations",
    "workload_of",
]
