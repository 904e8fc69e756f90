"""What EBS volumes cost at least, by the provider's documents alone: nothing of pgstow's is used.

Read from the EBS user guide (General Purpose SSD, Provisioned IOPS SSD and HDD volumes, 2026) and
the price list of us-east-1. Each function takes what one volume must have (GiB, IOPS, MiB/s, as
arrays) and gives the dollars of the cheapest that has it; infinite where none is sold. Sizes are
whole GiB; IOPS and MiB/s any number, so that no rounding is in the way of a comparison.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TOLERANCE = 1e-9


def whole(gib: Floats) -> Floats:
    """The next whole GiB."""
    return np.asarray(np.ceil(gib - _TOLERANCE))


def over(need: Floats, most: float | Floats) -> NDArray[np.bool_]:
    """Whether a need is over a limit, by more than arithmetic is off."""
    return np.asarray(need > most * (1 + _TOLERANCE))


def gp3(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """1 GiB to 64 TiB; 3,000 IOPS and 125 MiB/s with any size, to 80,000 at 500 per GiB and 2,000
    at 0.25 per IOPS; $0.08, $0.005 over 3,000, $0.04 over 125."""
    mibps = np.maximum(mibps, 125.0)
    iops = np.maximum(np.maximum(iops, 3000.0), mibps / 0.25)
    gib = np.maximum(gib, 1.0)
    gib = whole(np.where(over(iops, 3000.0), np.maximum(gib, iops / 500), gib))
    usd = 0.08 * gib + 0.005 * (iops - 3000) + 0.04 * (mibps - 125)
    bad = over(gib, 65_536) | over(iops, 80_000) | over(mibps, 2000)
    return np.where(bad, np.inf, usd)


def gp2(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """1 GiB to 16 TiB; 100 IOPS to 33.33 GiB, then 3 per GiB to 16,000; 128 MiB/s to 170 GiB, then
    250 as long as there are credits; $0.10."""
    gib = np.maximum(gib, 1.0)
    gib = np.where(over(iops, 100.0), np.maximum(gib, iops / 3), gib)
    gib = whole(np.where(over(mibps, 128.0), np.maximum(gib, 171.0), gib))
    bad = over(gib, 16_384) | over(iops, 16_000) | over(mibps, 250)
    return np.where(bad, np.inf, 0.10 * gib)


def io1(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """4 GiB to 16 TiB; 100 to 64,000 IOPS, 50 per GiB; to 32,000 IOPS 256 KiB each to 500 MiB/s,
    beyond 16 KiB each; $0.125, $0.065 an IOPS."""
    iops = np.maximum(iops, 100.0)
    iops = np.where(over(mibps, 500.0), np.maximum(iops, mibps * 64), np.maximum(iops, mibps * 4))
    gib = whole(np.maximum(np.maximum(gib, 4.0), iops / 50))
    bad = over(gib, 16_384) | over(iops, 64_000) | over(mibps, 1000)
    return np.where(bad, np.inf, 0.125 * gib + 0.065 * iops)


def io2(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """4 GiB to 64 TiB; 100 to 256,000 IOPS, 1,000 per GiB; 0.256 MiB/s each to 4,000; $0.125,
    $0.065 to 32,000, $0.0455 to 64,000, $0.03185 beyond."""
    iops = np.maximum(np.maximum(iops, 100.0), mibps / 0.256)
    gib = whole(np.maximum(np.maximum(gib, 4.0), iops / 1000))
    usd = 0.125 * gib + 0.065 * np.minimum(iops, 32_000)
    usd = usd + 0.0455 * np.clip(iops - 32_000, 0, 32_000)
    usd = usd + 0.03185 * np.maximum(iops - 64_000, 0)
    bad = over(gib, 65_536) | over(iops, 256_000) | over(mibps, 4000)
    return np.where(bad, np.inf, usd)


def _hdd(
    gib: Floats, iops: Floats, mibps: Floats, most: tuple[float, float, float], usd: float
) -> Floats:
    most_iops, per_tib, most_mibps = most
    gib = whole(np.maximum(np.maximum(gib, 125.0), mibps / per_tib * 1024))
    bad = over(gib, 16_384) | over(iops, most_iops) | over(mibps, most_mibps)
    return np.where(bad, np.inf, usd * gib)


def st1(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """125 GiB to 16 TiB; 500 IOPS; 40 MiB/s per TiB to 500, without credits; $0.045."""
    return _hdd(gib, iops, mibps, (500, 40, 500), 0.045)


def sc1(gib: Floats, iops: Floats, mibps: Floats) -> Floats:
    """125 GiB to 16 TiB; 250 IOPS; 12 MiB/s per TiB to 192, without credits; $0.015."""
    return _hdd(gib, iops, mibps, (250, 12, 192), 0.015)


TYPES = {"gp2": gp2, "gp3": gp3, "io1": io1, "io2": io2, "sc1": sc1, "st1": st1}


def least_usd(
    kind: str, stripes: int, gib: Floats, iops: Floats, mibps: Floats, *, is_new: bool
) -> Floats:
    """The same of a stripe of equal volumes, each with its part, of what plans propose.

    They buy no io2 at its later prices, no new gp2 below 34 GiB (``is_new``), and count on no more
    than 128 MiB/s of gp2, so nothing of that is held against them.
    """
    if kind == "gp2" and is_new:
        gib = np.maximum(gib, 34.0 * stripes)
    usd = stripes * TYPES[kind](gib / stripes, iops / stripes, mibps / stripes)
    if kind == "io2":
        needed = np.maximum(iops, mibps / 0.256) / stripes
        usd = np.where(over(needed, 32_000), np.inf, usd)
    if kind == "gp2":
        usd = np.where(over(mibps / stripes, 128), np.inf, usd)
    return np.asarray(usd)
