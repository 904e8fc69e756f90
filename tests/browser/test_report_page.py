"""The page in a real browser: it sorts, fits a telephone, and says nothing on the console."""

import html
import json
import os
import re
import signal
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import report_samples as samples

from pgstow.report import ReportDocument, render

pytestmark = pytest.mark.browser
DEADLINE_S = 120
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What the browser printed."""

    dom: str
    console: list[str]


def browse(chromium: str, directory: Path, file: Path, *arguments: str) -> Seen:
    """Open a file in a browser of its own, which ends with it.

    Where processors are busy chromium stops now and then before a screenshot: then once more.
    """
    try:
        return _browse(chromium, directory / "first", file, *arguments)
    except subprocess.TimeoutExpired:
        return _browse(chromium, directory / "again", file, *arguments)


def _browse(chromium: str, directory: Path, file: Path, *arguments: str) -> Seen:
    directory.mkdir(exist_ok=True)
    command = [chromium, *FLAGS, f"--user-data-dir={directory / 'browser'}", *arguments]
    process = subprocess.Popen(
        [*command, file.as_uri()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        dom, errors = process.communicate(timeout=DEADLINE_S / 2)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors
    return Seen(dom, [line for line in errors.splitlines() if "CONSOLE" in line])


HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe width="%d" height="3000" style="border:0"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument;
  const window = frame.contentWindow;
  const result = (() => { %s })();
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify(result);
  document.body.append(answer);
});
frame.srcdoc = %s;
</script>"""


def ask(chromium: str, tmp_path: Path, page: str, width: int, script: str) -> tuple[object, Seen]:
    """The answer of a script about the page, shown in a frame of that width."""
    outer = tmp_path / "outer.html"
    source = json.dumps(page).replace("</", "<\\/")
    outer.write_text(HARNESS % (width, script, source), encoding="utf-8")
    seen = browse(chromium, tmp_path, outer, "--dump-dom", "--virtual-time-budget=5000")
    found = re.search(r'<pre id="answer">(.*?)</pre>', seen.dom, re.DOTALL)
    assert found, seen.dom[-2000:]
    return json.loads(html.unescape(found[1])), seen


@pytest.fixture(scope="module")
def page() -> str:
    return render(samples.document(samples.HOSTILE))


SORTS = """
  const table = page.querySelector("table.sortable");
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  const press = (column) => {
    table.tHead.rows[0].cells[column].querySelector("button").click();
    return [names(), table.tHead.rows[0].cells[column].getAttribute("aria-sort")];
  };
  return { first: names(), size: press(2), again: press(2), name: press(0) };
"""


def test_pressing_a_header_sorts(chromium: str, tmp_path: Path, page: str) -> None:
    found, seen = ask(chromium, tmp_path, page, 1200, SORTS)
    assert isinstance(found, dict)
    rows = [(*row[:1], row[3]) for row in samples.RELATIONS if row[1] != "toast"]
    rows += [(name, 1.5) for name in samples.HOSTILE]
    largest, smallest = "content.public.analytics_events", "content.public.subscriptions"
    assert len(found["first"]) == len(rows)
    assert found["first"][0] == "content.public.articles"  # the busiest
    order, direction = found["size"]
    assert (order[0], order[-1], direction) == (largest, smallest, "descending")
    order, direction = found["again"]
    assert (order[0], order[-1], direction) == (smallest, largest, "ascending")
    order, direction = found["name"]
    assert direction == "ascending" and set(order) == set(found["first"])
    plain = [name for name in order if '"' not in name]
    assert plain == sorted(plain)
    assert seen.console == []


FITS = """
  const root = page.documentElement;
  const beyond = [...page.querySelectorAll("body *")].filter((element) => {
    if (element.closest(".scroll")) return false;
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > root.clientWidth + 1;
  });
  return [root.clientWidth, root.scrollWidth, beyond.map((e) => e.outerHTML.slice(0, 120))];
"""


@pytest.mark.parametrize("width", [400, 600, 850, 1400])
def test_the_page_fits(chromium: str, tmp_path: Path, page: str, width: int) -> None:
    found, _ = ask(chromium, tmp_path, page, width, FITS)
    assert found == [width, width, []]


def test_without_much_it_fits_as_well(chromium: str, tmp_path: Path) -> None:
    little = ReportDocument("Little", "2026-11-20", profile=samples.profile(names=samples.HOSTILE))
    found, seen = ask(chromium, tmp_path, render(little), 400, FITS)
    assert found == [400, 400, []]
    assert seen.console == []


LABELS = """
  const beyond = [];
  for (const svg of page.querySelectorAll("svg.layout")) {
    if (!svg.getClientRects().length) continue;
    for (const cell of svg.querySelectorAll(".cell")) {
      const box = cell.querySelector("rect").getBoundingClientRect();
      for (const text of cell.querySelectorAll("text")) {
        const label = text.getBoundingClientRect();
        const over = Math.max(label.right - box.right, label.bottom - box.bottom,
          box.left - label.left, box.top - label.top);
        if (over > 2) beyond.push([text.textContent, over]);
      }
    }
  }
  return beyond;
"""


@pytest.mark.parametrize("width", [400, 1200])
def test_labels_stay_in_their_cells(
    chromium: str, tmp_path: Path, page: str, width: int, each_font: str
) -> None:
    found, _ = ask(chromium, tmp_path, page, width, LABELS)
    assert found == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_file_opens_as_a_picture(chromium: str, tmp_path: Path, page: str, mode: str) -> None:
    file, picture = tmp_path / "report.html", tmp_path / "report.png"
    file.write_text(page, encoding="utf-8")
    dark = ["--force-dark-mode"] if mode == "dark" else []
    size = ["--window-size=1200,2000", f"--screenshot={picture}"]
    seen = browse(chromium, tmp_path, file, *size, *dark)
    assert seen.console == []
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 2000)
    assert len(data) > 50_000  # a blank page is a tenth of that


COLUMNS = """
  const seen = [];
  for (const name of ["steps", "why"]) {
    const section = page.getElementById(name);
    for (const cell of section.querySelectorAll("table.stack tbody > tr > *")) {
      if (!cell.getClientRects().length || !cell.textContent.trim()) continue;
      const box = cell.getBoundingClientRect();
      if (box.right > page.documentElement.clientWidth || box.left < 0) seen.push(cell.outerHTML);
    }
  }
  const warnings = page.querySelector("details.warnings").getBoundingClientRect();
  const cards = page.querySelector(".cards").getBoundingClientRect();
  return [seen, warnings.height < 60, cards.bottom];
"""


def test_a_telephone_loses_no_column(chromium: str, tmp_path: Path, page: str) -> None:
    found, _ = ask(chromium, tmp_path, page, 390, COLUMNS)
    assert isinstance(found, list) and found[:2] == [[], True]


def test_the_first_screen_holds_the_result(chromium: str, tmp_path: Path, page: str) -> None:
    found, _ = ask(chromium, tmp_path, page, 1240, COLUMNS)
    assert isinstance(found, list) and found[1] and found[2] < 450
