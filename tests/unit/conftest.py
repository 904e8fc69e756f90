"""What unit tests share that takes long to make."""

import json
from typing import Any

import pytest

_drawn: dict[str, str] = {}


@pytest.fixture
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts that are alike are drawn once: the pages of many tests have the same."""
    import vl_convert

    draw = vl_convert.vegalite_to_svg

    def once(specification: dict[str, Any], **options: Any) -> str:
        key = json.dumps([specification, options], sort_keys=True)
        if key not in _drawn:
            _drawn[key] = draw(specification, **options)
        return _drawn[key]

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", once)
