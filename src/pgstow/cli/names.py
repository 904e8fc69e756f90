"""Names on the terminal: hostile characters written out, long ones cut in the middle."""


def shown(text: str) -> str:
    """A text on one line of the terminal: line ends and other control characters written out.

    >>> shown("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable(text: str) -> str:
    """A text of several lines, in which line ends are the only control characters."""
    return "\n".join(shown(line) for line in text.split("\n"))


def count_of(number: int, thing: str) -> str:
    """A number with its noun.

    >>> count_of(1, "fault"), count_of(2, "fault")
    ('1 fault', '2 faults')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def fitted(text: str, width: int | None) -> str:
    """A name for the terminal, cut in its middle to a width in columns; None: whole.

    >>> fitted("shop.public.a_very_long_name", 16)
    'shop.pub…ng_name'
    """
    from rich.cells import cell_len, set_cell_size

    text = shown(text)
    if width is None or cell_len(text) <= width:
        return text
    head = width // 2
    tail, taken = "", 0
    for character in reversed(text):
        taken += cell_len(character)
        if taken > width - head - 1:
            break
        tail = character + tail
    return f"{set_cell_size(text, head)}…{tail}"
