"""A layout as a drawing: each volume a box, its contents inside, in proportion and by heat."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from pgstow.model import Layout, Volume, VolumeLoad
from pgstow.report import formatting as f
from pgstow.report import lettering
from pgstow.report.contents import Item
from pgstow.report.heat import Scale
from pgstow.report.treemap import Box, squarify
from pgstow.units import GIB

_BODY_HEIGHT = 300.0  # all that is stored, over both drawings
_LEAST_BODY = 38.0  # room for a label, however little is stored
_GAP = 14.0
_PAD = 8.0
_LINE = 15.0
_SIZES_PX = {"name": 12.0, "detail": 10.0}  # of text by its class, as in the style sheet
_USUAL_PX = 11.0
_LEAST_LABEL = 30.0  # pixels: less of a name says nothing
_MOST_CELLS = 40
_LEAST_AREA = 110.0  # square pixels; smaller cells are drawn as one
_BUSY = 0.02  # of a layout's operations; what asks more is drawn large enough to be read
_READABLE_AREA = 2400.0  # square pixels
_HEADER = 2 * _LINE + 8
_FOOTER = 36.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a drawing needs: both drawings of a page share heat and the bytes of a pixel."""

    layout: Layout
    items: Mapping[str, tuple[Item, ...]]
    loads: Mapping[str, VolumeLoad]
    prices: Mapping[str, float | None]
    scale: Scale
    bytes_in_all: float
    title: str

    @property
    def operations_in_all(self) -> float:
        """What all that is stored in the layout asks, per second."""
        every = (item for items in self.items.values() for item in items)
        return sum(item.operations or 0.0 for item in every)

    def height_of(self, volume: str) -> float:
        """How high the inside of a volume's box is."""
        stored = sum(item.size_bytes for item in self.items.get(volume, ()))
        share = stored / self.bytes_in_all if self.bytes_in_all > 0 else 0.0
        return max(_LEAST_BODY, share * _BODY_HEIGHT)


def draw(drawing: Drawing, width: float) -> Markup:
    """The drawing as inline SVG, ``width`` pixels wide at its natural size."""
    heights = [drawing.height_of(volume.name) for volume in drawing.layout.volumes]
    total = sum(height + _HEADER + _FOOTER + _GAP for height in heights) - _GAP
    svg = ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {total:.1f}",
            "width": f"{width:g}",
            "height": f"{total:.1f}",
            "role": "img",
            "class": "layout",
            "aria-label": _described(drawing),
        },
    )
    y = 0.0
    for volume, height in zip(drawing.layout.volumes, heights, strict=True):
        group = ET.SubElement(svg, "g", {"transform": f"translate(0 {y:.1f})"})
        _volume(group, drawing, volume, width, height)
        y += height + _HEADER + _FOOTER + _GAP
    return Markup(ET.tostring(svg, encoding="unicode"))  # noqa: S704 - ElementTree escapes


def _described(drawing: Drawing) -> str:
    parts = []
    for volume in drawing.layout.volumes:
        load = drawing.loads.get(volume.name)
        busy = f", {f.percent(load.utilisation)} used" if load else ""
        parts.append(
            f"{volume.name}: {type_and_size(volume)}, {len(drawing.items[volume.name])} items{busy}"
        )
    return "; ".join(parts)


def type_and_size(volume: Volume) -> str:
    """A volume's type and size as people say it."""
    stripes = f"{volume.stripes} × " if volume.stripes > 1 else ""
    return f"{stripes}{volume.type} {f.size(volume.size_bytes)}"


def limits(volume: Volume, load: VolumeLoad | None) -> str:
    """What a volume can do, all members together."""
    iops = load.iops_limit if load else None
    rate = load.bytes_limit if load else None
    if iops is None and volume.iops is not None:
        iops = volume.iops * volume.stripes
    if rate is None and volume.throughput is not None:
        rate = volume.throughput * volume.stripes
    known = [f"{f.number(iops)} IOPS"] if iops is not None else []
    known += [f.rate(rate)] if rate is not None else []
    return " · ".join(known)


def roles(layout: Layout, volume: str) -> str:
    """What of PostgreSQL itself a volume holds."""
    placement = layout.postgres
    held = [
        name
        for name, where in (
            ("data directory", (placement.data,)),
            ("pg_wal", (placement.wal,)),
            ("temporary files", placement.temp or (placement.data,)),
        )
        if volume in where
    ]
    spaces = [space.name for space in layout.tablespaces if space.volume == volume]
    held += [f"tablespace {', '.join(spaces)}"] if spaces else []
    return ", ".join(held)


def _volume(
    group: ET.Element, drawing: Drawing, volume: Volume, width: float, height: float
) -> None:
    load = drawing.loads.get(volume.name)
    usd = drawing.prices.get(volume.name)
    outer = Box(0.5, 0.5, width - 1, height + _HEADER + _FOOTER - 1)
    _rect(group, outer, "volume", radius=4)
    room = width - 2 * _PAD
    price = f"{f.usd(usd)} / month" if usd is not None else ""
    _head(group, volume, room - lettering.width_px(price, _SIZES_PX["name"]) - _PAD)
    _text(group, width - _PAD, 18, price, "name end")
    able = limits(volume, load)
    _text(group, width - _PAD, 18 + _LINE, able, "small end")
    held = roles(drawing.layout, volume.name)
    left = max(8 * _PAD, room - lettering.width_px(able, _USUAL_PX) - _PAD)
    text = _text(group, _PAD, 18 + _LINE, lettering.cut(held, _USUAL_PX, left), "small")
    ET.SubElement(text, "title").text = f.visible(f"{volume.mount}: {held}")
    body = Box(_PAD, _HEADER, width - 2 * _PAD, height)
    _cells(group, drawing, drawing.items.get(volume.name, ()), body)
    half = (width - 3 * _PAD) / 2
    y = _HEADER + height + 6
    _load_bar(group, load, Box(_PAD, y, half, 6))
    _space_bar(group, drawing, volume, Box(2 * _PAD + half, y, half, 6))


def _head(group: ET.Element, volume: Volume, room: float) -> None:
    """The volume's name, in bold, and what it is."""
    size = _SIZES_PX["name"]
    head = ET.SubElement(group, "text", {"x": f"{_PAD:g}", "y": "18", "class": "name"})
    what = type_and_size(volume)
    name = lettering.cut(volume.name, size * 1.07, room - lettering.width_px(what, size) - _PAD)
    strong = {"class": "strong", **lettering.length(name, size, bold=True)}
    ET.SubElement(head, "tspan", strong).text = name
    ET.SubElement(head, "tspan", {"dx": "8", **lettering.length(what, size)}).text = what


def _cells(group: ET.Element, drawing: Drawing, items: Sequence[Item], body: Box) -> None:
    if not items:
        _rect(group, body, "empty")
        return
    drawn = _together(items, body, _BUSY * drawing.operations_in_all)
    for item, box in zip(drawn, squarify([i.area_bytes for i in drawn], body), strict=True):
        heat = drawing.scale.heat(item.density)
        css = "unknown" if heat is None else f"h{heat}"
        cell = ET.SubElement(group, "g", {"class": f"cell {css}"})
        ET.SubElement(cell, "title").text = f.visible(_tooltip(item))
        _rect(cell, box, "wal" if item.kind == "WAL" else "")
        _label(cell, item, box)


def _together(items: Sequence[Item], body: Box, busy: float) -> list[Item]:
    """The items that can be seen, and the others as one.

    What asks at least ``busy`` operations per second is seen however small it is.
    """
    of_pixel = sum(item.size_bytes for item in items) / (body.width * body.height)
    hot = [item for item in items if busy > 0 and (item.operations or 0.0) >= busy]
    fair = _READABLE_AREA * min(
        1.0, 0.5 * body.width * body.height / _READABLE_AREA / max(1, len(hot))
    )
    drawn = [
        replace(i, drawn_bytes=max(i.size_bytes, fair * of_pixel)) if i in hot else i for i in items
    ]
    drawn.sort(key=lambda item: -item.area_bytes)
    least = max(_LEAST_AREA * of_pixel, 1.0)
    seen = [item for item in drawn[:_MOST_CELLS] if item.area_bytes >= least]
    hidden = [item for item in drawn if item not in seen]
    if not hidden:
        return seen
    known = [item.operations for item in hidden if item.operations is not None]
    size = sum(item.size_bytes for item in hidden)
    name = f"{len(hidden)} more" if len(hidden) > 1 else hidden[0].name
    kind = "relations" if len(hidden) > 1 else hidden[0].kind
    rest = Item(name, kind, size, sum(known) if known else None, drawn_bytes=max(size, least))
    return [*seen, rest]


def _tooltip(item: Item) -> str:
    what = f"{item.name} ({item.kind}), {f.size(item.size_bytes)}"
    if item.operations is None:
        return what
    return f"{what}: {f.number(item.operations)} I/O per second, {f.number(item.density)} per GiB"


def _label(cell: ET.Element, item: Item, box: Box) -> None:
    """The name and, where there is room, the size and heat; sideways in a narrow cell."""
    inside = box.width - 8
    if box.height < 15:
        return
    if inside >= _LEAST_LABEL:
        name = lettering.cut(item.name, _USUAL_PX, inside)
        _text(cell, box.x + 5, box.y + 13, name, "label")
        detail = f.size(item.size_bytes)
        if item.density is not None:
            more = f"{detail} · {f.number(item.density)}/GiB"
            detail = more if _fits(more, inside) else detail
        if box.height >= 30 and _fits(detail, inside):
            _text(cell, box.x + 5, box.y + 26, detail, "label detail")
    elif inside >= 6 and box.height >= 50:
        name = lettering.cut(item.name, _USUAL_PX, box.height - 8)
        x, y = box.x + box.width / 2 + 4, box.y + 5
        label = _text(cell, 0, 0, name, "label")
        label.set("transform", f"translate({x - 8:.1f} {y:.1f}) rotate(90)")


def _fits(detail: str, room: float) -> bool:
    return lettering.width_px(detail, _SIZES_PX["detail"]) <= room


def _load_bar(group: ET.Element, load: VolumeLoad | None, box: Box) -> None:
    if load is None:
        _text(group, box.x, box.y + 22, "load not known", "small")
        return
    _bar(group, box, load.utilisation, "load")
    limit = {"iops": "of its IOPS", "throughput": "of its throughput"}.get(load.binding, "busy")
    operations = f"{f.number(load.reads + load.writes)} I/O per s"
    text = f"{f.percent(load.utilisation)} {limit}"
    both = f"{text} · {operations}"
    text = both if lettering.width_px(both, _USUAL_PX) <= box.width else text
    _text(group, box.x, box.y + 21, text, "small")


def _space_bar(group: ET.Element, drawing: Drawing, volume: Volume, box: Box) -> None:
    stored = sum(item.size_bytes for item in drawing.items.get(volume.name, ()))
    _bar(group, box, stored / volume.total_bytes, "space")
    unit = GIB if volume.total_bytes >= GIB else 1
    if unit == GIB:
        text = f"{f.number(stored / GIB)} of {f.number(volume.total_bytes / GIB)} GiB"
    else:
        text = f"{f.size(stored)} of {f.size(volume.total_bytes)}"
    _text(group, box.x, box.y + 21, f"{text} stored", "small")


def _bar(group: ET.Element, box: Box, share: float, css: str) -> None:
    _rect(group, box, "track", radius=2)
    full = " full" if share >= 0.9 else ""
    filled = Box(box.x, box.y, box.width * min(1.0, max(0.0, share)), box.height)
    _rect(group, filled, f"bar {css}{full}", radius=2)


def _rect(parent: ET.Element, box: Box, css: str, radius: float = 0) -> None:
    attributes = {
        "x": f"{box.x:.1f}",
        "y": f"{box.y:.1f}",
        "width": f"{max(0.0, box.width):.1f}",
        "height": f"{max(0.0, box.height):.1f}",
    }
    if css:
        attributes["class"] = css
    if radius:
        attributes["rx"] = f"{radius:g}"
    ET.SubElement(parent, "rect", attributes)


def _text(parent: ET.Element, x: float, y: float, text: str, css: str) -> ET.Element:
    """A text that takes the same room in any font."""
    shown = f.visible(text)
    size = next((_SIZES_PX[name] for name in css.split() if name in _SIZES_PX), _USUAL_PX)
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": css}
    element = ET.SubElement(parent, "text", attributes | lettering.length(shown, size))
    element.text = shown
    return element
