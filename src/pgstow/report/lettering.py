"""How wide a drawn text is, so that it takes the same room in whatever font the reader has.

Widths are Helvetica's, as in Adobe's font metrics; Arial and Liberation Sans have the same. A text
in a drawing says its width (SVG's textLength), and a browser with a wider font, such as DejaVu
Sans, sets it closer.
"""

import html
import re
import unicodedata

from pgstow.report.formatting import shortened, visible

_WIDTHS = (  # of ASCII from the space on, in thousandths of the font's size
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_OTHERS = {"·": 333, "×": 584, "…": 1000, "µ": 556, "–": 556, "−": 584}
_USUAL, _WHOLE = 600, 1000  # of other letters; of ideographs and pictures
_BOLD = 1.07


def width_px(text: str, size_px: float, *, bold: bool = False) -> float:
    """The room that a text takes.

    >>> round(width_px("data", 10), 2), width_px("日本", 10)
    (19.46, 20.0)
    """
    total = sum(_width(character) for character in text)
    return total * size_px / 1000 * (_BOLD if bold else 1.0)


def cut(text: str, size_px: float, room_px: float) -> str:
    """A text on one line that fits its room, its middle left out.

    >>> cut("analytics_events_by_day", 11, 60)
    'anal…_day'
    """
    whole = visible(text)
    if width_px(whole, size_px) <= room_px:
        return whole
    low, high = 0, len(whole)  # the longest that fits lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        fits = width_px(shortened(whole, middle), size_px) <= room_px
        low, high = (middle, high) if fits else (low, middle)
    return shortened(whole, low) if low else ""


def length(text: str, size_px: float, *, bold: bool = False) -> dict[str, str]:
    """The attributes of an SVG text that keep it to its room in any font."""
    if not text.strip():
        return {}
    width = width_px(text, size_px, bold=bold)
    return {"textLength": f"{width:.1f}", "lengthAdjust": "spacingAndGlyphs"}


_TEXT = re.compile(r"<text\b([^<>]*)>([^<>]*)</text>")
_SIZE = re.compile(r'font-size="([0-9.]+)px"')
_IS_BOLD = re.compile(r'font-weight="(?:bold|[6-9]00)"')


def held(svg: str) -> str:
    """A drawing by Vega, each of its texts kept to the room that Vega computed with.

    >>> held('<text font-size="10px">data</text>')
    '<text font-size="10px" textLength="19.5" lengthAdjust="spacingAndGlyphs">data</text>'
    """
    return _TEXT.sub(_held, svg)


def _held(text: re.Match[str]) -> str:
    size = _SIZE.search(text[1])
    if size is None:
        return text[0]
    shown = html.unescape(text[2])
    found = length(shown, float(size[1]), bold=_IS_BOLD.search(text[1]) is not None)
    more = "".join(f' {name}="{value}"' for name, value in found.items())
    return f"<text{text[1]}{more}>{text[2]}</text>"


def _width(character: str) -> int:
    position = ord(character) - 0x20
    if 0 <= position < len(_WIDTHS):
        return _WIDTHS[position]
    if character in _OTHERS:
        return _OTHERS[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return _WHOLE if unicodedata.east_asian_width(character) in "WF" else _USUAL
