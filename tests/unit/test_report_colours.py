"""The page's colours of levels and wait events can be told apart, also by the colour-blind."""

import re
from importlib import resources
from itertools import combinations

import numpy as np
import pytest

from pgstow.report.experiments import colours

# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision
# Deficiency, 2009: severity 1.0, on linear RGB.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                   [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def properties(scheme: str) -> dict[str, str]:
    """The custom properties of the style sheet's light or dark part."""
    css = resources.files("pgstow").joinpath("templates", "report.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return dict(re.findall(r"--([\w-]+): (#\w{6});", light if scheme == "light" else dark))


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("names", [colours.LEVELS_LIGHT, colours.WAITS_LIGHT])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_any_two_can_be_told_apart(scheme: str, names: dict[str, str], sight: str) -> None:
    known = properties(scheme)
    seen = {name: lab(np.array(SIGHT[sight]) @ linear(known[name])) for name in names}
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(apart.values()) >= 14, min(apart, key=lambda pair: apart[pair])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_stand_out_from_the_page(scheme: str) -> None:
    known = properties(scheme)
    paper = float(TO_XYZ[1] @ linear(known["paper"]))
    for name in colours.LEVELS:
        line = float(TO_XYZ[1] @ linear(known[name]))
        low, high = sorted((paper, line))
        assert (high + 0.05) / (low + 0.05) >= 3, name  # WCAG 2.2, 1.4.11


def test_pictures_have_the_page_s_light_colours() -> None:
    known = properties("light")
    chosen = {**colours.LEVELS_LIGHT, **colours.WAITS_LIGHT}
    assert {name: known[name] for name in chosen} == chosen
