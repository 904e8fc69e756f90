"""The drawing's geometry, the heat's classes and the figures' writing."""

import re
from dataclasses import replace

import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st

from pgstow.report import (
    ReportDocument,
    charts,
    contents,
    formatting,
    heat,
    lettering,
    render_pngs,
)
from pgstow.report import render as render_page
from pgstow.report.heat import Scale
from pgstow.report.treemap import Box, squarify
from pgstow.units import MIB, Bytes

sizes = st.lists(st.floats(min_value=1e3, max_value=1e9), min_size=1, max_size=60)


@given(sizes)
def test_cells_have_the_areas_of_their_sizes_and_fill_the_box(values: list[float]) -> None:
    values = sorted(values, reverse=True)
    box = Box(3.0, 5.0, 500.0, 200.0)
    cells = squarify(values, box)
    total = sum(values)
    for value, cell in zip(values, cells, strict=True):
        assert cell.width * cell.height == pytest.approx(value / total * 1e5, rel=1e-6, abs=1e-3)
        assert cell.x >= box.x - 1e-3 and cell.x + cell.width <= box.x + box.width + 1e-3
        assert cell.y >= box.y - 1e-3 and cell.y + cell.height <= box.y + box.height + 1e-3


@given(sizes)
def test_cells_do_not_overlap(values: list[float]) -> None:
    cells = squarify(sorted(values, reverse=True), Box(0.0, 0.0, 400.0, 300.0))
    for place, one in enumerate(cells):
        for other in cells[place + 1 :]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert min(across, down) <= 1e-3


def test_nothing_and_no_room_make_no_trouble() -> None:
    assert squarify([], Box(0, 0, 1, 1)) == ()
    assert squarify([0.0, 0.0], Box(0, 0, 1, 1)) == (Box(0, 0, 0, 0),) * 2


@given(st.lists(st.floats(min_value=1e-6, max_value=1e9), min_size=1, max_size=50))
def test_hotter_is_never_a_colder_class(densities: list[float]) -> None:
    scale = Scale.of(densities)
    classes = [scale.heat(value) for value in sorted(densities)]
    assert classes == sorted(classes, key=lambda one: -1 if one is None else one)
    assert all(one is not None and 1 <= one <= heat.CLASSES for one in classes)
    assert scale.heat(0.0) == 0 and scale.heat(None) is None
    assert list(scale.bounds) == sorted(set(scale.bounds))


def test_toast_lies_with_its_table_and_the_wal_on_its_volume() -> None:
    held = contents.contents(samples.layout_after(), samples.profile())
    articles = next(item for item in held["hot"] if item.name == "articles")
    assert articles.size_bytes == pytest.approx(15.5 * 1024**3)
    assert articles.operations == 4200 + 120 + 300 + 10
    assert [item.name for item in held["wal"]] == ["pg_wal"]
    assert "articles" not in {item.name for item in held["data"]}


def test_names_of_two_schemas_are_told_in_full() -> None:
    profile = samples.profile()
    one = profile.server.relations[0]
    other = replace(one, id=replace(one.id, schema="archive"))
    relations = (*profile.server.relations, other)
    wide = replace(profile, server=replace(profile.server, relations=relations))
    names = {item.name for item in contents.contents(samples.layout_before(), wide)["data"]}
    assert {"content.public.articles", "content.archive.articles"} <= names


@given(st.text(max_size=80), st.integers(min_value=1, max_value=40))
def test_shortened_names_fit_and_hide_nothing(text: str, length: int) -> None:
    found = formatting.shortened(text, length)
    assert len(found) <= max(length, 1)
    assert not any(ord(character) < 0x20 for character in found)


def test_long_runs_are_thinned_to_their_ends() -> None:
    kept = charts.thinned([float(value) for value in range(10_000)])
    assert len(kept) <= 240 and kept[0] == (0, 0.0) and kept[-1] == (9_999, 9_999.0)


def test_charts_are_pictures_too() -> None:
    found = render_pngs(samples.document())
    assert set(found) == {"throughput", "throughput-over-time", "latency", "commits"}
    assert all(picture.startswith(b"\x89PNG") for picture in found.values())


@given(st.text(max_size=60), st.floats(min_value=5, max_value=400))
def test_what_is_cut_takes_no_more_than_its_room(text: str, room_px: float) -> None:
    found = lettering.cut(text, 11, room_px)
    assert lettering.width_px(found, 11) <= room_px
    if lettering.width_px(formatting.visible(text), 11) <= room_px:
        assert found == formatting.visible(text)


def test_every_text_of_a_drawing_says_its_width() -> None:
    html = render_page(samples.document(samples.HOSTILE))
    texts = re.findall(r"<text\b[^>]*>[^<]", html)
    assert len(texts) > 40
    assert [text for text in texts if "textLength" not in text] == []


def test_what_is_asked_much_is_drawn_however_small_it_is() -> None:
    profile = samples.profile()
    small = replace(profile.server.relations[1], size_bytes=Bytes(8 * MIB))  # articles_pkey
    relations = tuple(small if r.id == small.id else r for r in profile.server.relations)
    shrunk = replace(profile, server=replace(profile.server, relations=relations))
    html = render_page(ReportDocument("Hot", "2026-11-20", profile=shrunk))
    assert re.search(r"<text[^>]*>art[^<]*key</text>", html)
