"""What each volume stores now, in the sizes that are planned for."""

from pgstow.model import Profile
from pgstow.planning.needs import base_gib, wal_gib
from pgstow.planning.problem import SIZE, Demands
from pgstow.prediction import Workload
from pgstow.units import GIB


def held_gib(profile: Profile, demands: Demands, workload: Workload) -> dict[str, float]:
    """GiB by volume: relations, the data directory, the WAL, a minute of temporary files."""
    placement = profile.layout.postgres
    held = dict.fromkeys(demands.volumes, 0.0)
    for current_volume, size in zip(
        demands.current_volume.tolist(), demands.demand[:, SIZE].tolist(), strict=True
    ):
        held[demands.volumes[current_volume]] += size
    held[placement.data] += base_gib()
    held[placement.wal] += wal_gib(profile)
    if workload.temp_bytes > 0:
        spilled = workload.temp_bytes * workload.transactions_per_second * 60 / GIB
        held[placement.temp[0] if placement.temp else placement.data] += max(1.0, spilled)
    return held
