"""Print what pyproject.toml requires, with the extras named as arguments, one a line."""

import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Read the project file beside this directory."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    requirements = list(project["dependencies"])
    for extra in sys.argv[1:]:
        requirements += project["optional-dependencies"][extra]
    print("\n".join(sorted(set(requirements))))


if __name__ == "__main__":
    main()
