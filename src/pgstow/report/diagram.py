"""A layout as a drawing: each volume a box, what lies on it inside, in proportion and by heat."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pgstow.model import Layout, Volume, VolumeLoad
from pgstow.report import formatting as f
from pgstow.report.contents import Item
from pgstow.report.heat import Scale
from pgstow.report.treemap import Box, squarify
from pgstow.units import GIB

_BODY_HEIGHT = 300.0  # all that is stored, over both drawings
_LEAST_BODY = 38.0  # room for a label, however little is stored
_GAP = 14.0
_PAD = 8.0
_LINE = 15.0
_CHARACTER = 5.9  # of the labels' 11 px, on average
_MOST_CELLS = 40
_LEAST_AREA = 110.0  # square pixels; smaller cells are drawn as one
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
    return f"{drawing.title}. " + "; ".join(parts)


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
    place = layout.postgres
    held = [
        name
        for name, where in (
            ("data directory", (place.data,)),
            ("pg_wal", (place.wal,)),
            ("temporary files", place.temp or (place.data,)),
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
    room = int((width - 2 * _PAD) / _CHARACTER)
    price = f"{f.usd(usd)} / month" if usd is not None else ""
    what = f.shortened(f"{volume.name}  {type_and_size(volume)}", room - len(price) - 2)
    head = _text(group, _PAD, 18, "", "name")
    name, _, rest = what.partition("  ")
    ET.SubElement(head, "tspan", {"class": "strong"}).text = name
    ET.SubElement(head, "tspan", {"dx": "8"}).text = rest
    _text(group, width - _PAD, 18, price, "name end")
    able = limits(volume, load)
    _text(group, width - _PAD, 18 + _LINE, able, "small end")
    held = f.shortened(roles(drawing.layout, volume.name), max(8, room - len(able) - 1))
    title = _text(group, _PAD, 18 + _LINE, held, "small")
    ET.SubElement(title, "title").text = f"{volume.mount}: {roles(drawing.layout, volume.name)}"
    body = Box(_PAD, _HEADER, width - 2 * _PAD, height)
    _cells(group, drawing, drawing.items.get(volume.name, ()), body)
    half = (width - 3 * _PAD) / 2
    y = _HEADER + height + 6
    _load_bar(group, load, Box(_PAD, y, half, 6))
    _space_bar(group, drawing, volume, Box(2 * _PAD + half, y, half, 6))


def _cells(group: ET.Element, drawing: Drawing, items: Sequence[Item], body: Box) -> None:
    if not items:
        _rect(group, body, "empty")
        return
    drawn = _together(items, body)
    for item, box in zip(drawn, squarify([i.size_bytes for i in drawn], body), strict=True):
        heat = drawing.scale.heat(item.density)
        css = "unknown" if heat is None else f"h{heat}"
        cell = ET.SubElement(group, "g", {"class": f"cell {css}"})
        ET.SubElement(cell, "title").text = f.visible(_told(item))
        _rect(cell, box, "wal" if item.kind == "WAL" else "")
        _label(cell, item, box)


def _together(items: Sequence[Item], body: Box) -> list[Item]:
    """The items that can be seen, and the others as one."""
    least = _LEAST_AREA / (body.width * body.height) * sum(item.size_bytes for item in items)
    seen = [item for item in items[:_MOST_CELLS] if item.size_bytes >= max(least, 1.0)]
    hidden = [item for item in items if item not in seen]
    if not hidden:
        return seen
    known = [item.operations for item in hidden if item.operations is not None]
    size = max(sum(item.size_bytes for item in hidden), least)
    name = f"{len(hidden)} more" if len(hidden) > 1 else hidden[0].name
    kind = "relations" if len(hidden) > 1 else hidden[0].kind
    rest = Item(name, kind, size, sum(known) if known else None)
    return [*seen, rest]


def _told(item: Item) -> str:
    what = f"{item.name} ({item.kind}), {f.size(item.size_bytes)}"
    if item.operations is None:
        return what
    return f"{what}: {f.number(item.operations)} I/O per second, {f.number(item.density)} per GiB"


def _label(cell: ET.Element, item: Item, box: Box) -> None:
    """The name and, where there is room, the size and heat; sideways in a narrow cell."""
    inside = box.width - 8
    if box.height < 15:
        return
    if inside >= 6 * _CHARACTER:
        name = f.shortened(item.name, int(inside / _CHARACTER))
        _text(cell, box.x + 5, box.y + 13, name, "label")
        detail = f.size(item.size_bytes)
        if item.density is not None:
            more = f"{detail} · {f.number(item.density)}/GiB"
            detail = more if len(more) * _CHARACTER * 0.92 <= inside else detail
        if box.height >= 30 and len(detail) * _CHARACTER * 0.92 <= inside:
            _text(cell, box.x + 5, box.y + 26, detail, "label detail")
    elif inside >= 6 and box.height >= 50:
        name = f.shortened(item.name, int((box.height - 8) / _CHARACTER))
        x, y = box.x + box.width / 2 + 4, box.y + 5
        label = _text(cell, 0, 0, name, "label")
        label.set("transform", f"translate({x - 8:.1f} {y:.1f}) rotate(90)")


def _load_bar(group: ET.Element, load: VolumeLoad | None, box: Box) -> None:
    if load is None:
        _text(group, box.x, box.y + 22, "load not known", "small")
        return
    _bar(group, box, load.utilisation, "load")
    limit = {"iops": "of its IOPS", "throughput": "of its throughput"}.get(load.binding, "busy")
    operations = f"{f.number(load.reads + load.writes)} I/O per s"
    text = f"{f.percent(load.utilisation)} {limit}"
    if (len(text) + len(operations) + 3) * _CHARACTER < box.width:
        text = f"{text} · {operations}"
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
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": css}
    element = ET.SubElement(parent, "text", attributes)
    element.text = f.visible(text)
    return element
