"""Prediction: throughput, latency, utilisation and price of a layout under a profile."""

from pgstow.prediction.predict import predict
from pgstow.prediction.simulation import totals_by_volume
from pgstow.prediction.workload import (
    SEQUENTIAL_READ_BYTES,
    RelationWork,
    Workload,
    places,
    workload_of,
)

__all__ = [
    "SEQUENTIAL_READ_BYTES",
    "RelationWork",
    "Workload",
    "places",
    "predict",
    "totals_by_volume",
    "workload_of",
]
