"""Prediction: throughput, latency, utilisation and price of a layout under a profile."""

from pgstow.prediction.predict import predict
from pgstow.prediction.simulation import totals_by_volume
from pgstow.prediction.workload import RelationWork, Workload, volume_of, workload_of

__all__ = [
    "RelationWork",
    "Workload",
    "predict",
    "totals_by_volume",
    "volume_of",
    "workload_of",
]
