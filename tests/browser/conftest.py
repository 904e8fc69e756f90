"""What the browser tests need: chromium, and the documents of the unit tests."""

import shutil
import sys
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
