"""What the browser tests need: chromium, and the documents of the unit tests."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "unit"))

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path; a test without one skips, or fails where browsers are required."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    return found


# Directory under /usr/share/fonts/truetype, the family that stands for every other, its package
FONTS = {
    "DejaVu Sans": ("dejavu", "fonts-dejavu-core"),
    "Liberation Sans": ("liberation", "fonts-liberation"),
    "Noto Sans": ("noto", "fonts-noto-core"),
}
FONTCONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts/truetype/{directory}</dir>
  <cachedir>{cache}</cachedir>
  <match target="pattern">
    <edit name="family" mode="assign" binding="strong"><string>{family}</string></edit>
  </match>
</fontconfig>
"""


def use_font(family: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs that are started see one family of fonts and no other."""
    name, package = FONTS[family]
    file = directory / "fonts.conf"
    text = FONTCONFIG.format(directory=name, cache=directory / "fonts", family=family)
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("FONTCONFIG_FILE", str(file))
    found = subprocess.run(
        ["fc-match", "--format", "%{family}", "Helvetica"],
        check=True,
        capture_output=True,
        text=True,
    )
    if family not in found.stdout.split(","):
        pytest.skip(f"{family} is not installed (apt-get install {package})")


@pytest.fixture(autouse=True)
def one_font(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test sees the same font, whatever is installed."""
    use_font("DejaVu Sans", tmp_path, monkeypatch)


@pytest.fixture(
    params=[
        family if family == "DejaVu Sans" else pytest.param(family, marks=pytest.mark.nightly)
        for family in sorted(FONTS)
    ]
)
def each_font(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """One family after the other, and no other beside it."""
    use_font(request.param, tmp_path, monkeypatch)
    yield request.param
