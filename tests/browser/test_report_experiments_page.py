"""The page's part on experiments in a real browser: it fits, says nothing, and can be read."""

import struct
from pathlib import Path

import experiment_page_samples as samples
import pytest
from test_report_page import FITS, ask, browse

from pgstow.report import ReportDocument, render

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("experiments")]  # pages made once


def page_of(*sections: samples.ExperimentSection) -> str:
    return render(ReportDocument("Experiments", "2026-11-21", experiments=sections))


@pytest.fixture(scope="module")
def striping() -> str:
    return page_of(samples.striping(3))


@pytest.fixture(scope="module")
def hostile() -> str:
    return page_of(samples.studied(), samples.hostile())


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_many_levels_fit(chromium: str, tmp_path: Path, striping: str, width: int) -> None:
    found, seen = ask(chromium, tmp_path, striping, width, FITS)
    assert found == [width, width, []]
    assert seen.console == []


@pytest.mark.parametrize("width", [360, 1400])
def test_hostile_text_fits_and_runs_nothing(
    chromium: str, tmp_path: Path, hostile: str, width: int
) -> None:
    found, seen = ask(chromium, tmp_path, hostile, width, FITS)
    assert found == [width, width, []]
    assert seen.console == []


# Labels that are drawn over each other, or smaller than 8 px on the screen.
LABELS = """
  const bad = [];
  for (const svg of page.querySelectorAll(".charts svg")) {
    if (!svg.getClientRects().length) continue;
    const boxes = [...svg.querySelectorAll("text")]
      .filter((text) => text.textContent.trim() && text.getAttribute("opacity") !== "0")
      .map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    boxes.forEach(([label, box], place) => {
      if (box.height < 8) bad.push(["small", label, box.height]);
      for (const [other, next] of boxes.slice(place + 1)) {
        const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (across > 1.5 && down > box.height / 3) bad.push(["over", label, other, across, down]);
      }
    });
  }
  return bad;
"""


@pytest.mark.parametrize("width", [360, 1240])
@pytest.mark.parametrize("name", ["striping", "hostile"])
def test_labels_can_be_read(
    chromium: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    width: int,
    each_font: str,
) -> None:
    found, _ = ask(chromium, tmp_path, request.getfixturevalue(name), width, LABELS)
    assert found == []


COLOURS = """
  const seen = new Set();
  for (const line of page.querySelectorAll(".tps-over-time path[stroke^='var']")) {
    seen.add(frame.contentWindow.getComputedStyle(line).stroke);
  }
  return [...seen].sort();
"""


def test_lines_have_the_page_s_colours(chromium: str, tmp_path: Path) -> None:
    found, _ = ask(chromium, tmp_path, page_of(samples.filesystem(2)), 1240, COLOURS)
    light = ["rgb(124, 135, 148)", "rgb(18, 114, 214)", "rgb(199, 122, 30)"]
    assert isinstance(found, list) and set(light) <= set(found)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_part_opens_as_a_picture(
    chromium: str, tmp_path: Path, striping: str, mode: str
) -> None:
    file, picture = tmp_path / "report.html", tmp_path / "report.png"
    file.write_text(striping, encoding="utf-8")
    dark = ["--force-dark-mode"] if mode == "dark" else []
    size = ["--window-size=1240,2400", f"--screenshot={picture}"]
    assert browse(chromium, tmp_path, file, *size, *dark).console == []
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1240, 2400)
    assert len(data) > 150_000
