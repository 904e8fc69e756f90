"""The reasons for one relation's volume, as text."""

from typing import TYPE_CHECKING

from pgstow.cli.names import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgstow.model import Performance, Reason
    from pgstow.planning import TypeChoice, Why


def why_lines(found: "Why", now: "Performance", planned: "Sequence[Reason]") -> "Iterator[str]":
    """Where it is, what it asks, what each type would cost, and what else the layout could do."""
    from pgstow.units import format_size, format_usd

    name = fitted(found.subject, None)
    kind = found.kind[0].upper() + found.kind[1:]
    yield f"{kind} {name}  (volume={found.volume} type={found.type})"
    if found.is_idle:
        size = format_size(found.size_bytes)
        yield f"  Asks nothing of the devices: only its size counts, {size}"
    else:
        yield (
            f"  Asks {found.reads + found.writes:,.1f} I/O/s ({found.reads:,.1f} reads,"
            f" {found.writes:,.1f} writes) of {format_size(found.size_bytes)}:"
            f" {found.density:,.1f} I/O/s per GiB"
        )
    if found.types:
        yield from _types(found)
    for reason in planned:
        cost = reason.next_best_usd_month
        price = "" if cost is None else f", {format_usd(cost)} more per month"
        yield f"  The plan's next best, all else arranged anew: {reason.next_best}{price}"
    yield from _volumes(found, now)


def _types(found: "Why") -> "Iterator[str]":
    margins = found.margins
    yield (
        f"  Its own space and I/O beyond what is included, {margins.free_space:.0%} of space and "
        f"{margins.headroom:.0%} of limits kept free:"
    )
    rows: list[tuple[str, ...]] = [
        ("type", "$/month", "GiB bought", "read", "write", f"break-even with {found.type}")
    ]
    rows += [_type_row(choice, found.type) for choice in found.types]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        mark = "  <- current" if row[0] == found.type else ""
        yield f"    {'  '.join(cells)}{mark}".rstrip()
    yield from _verdict(found)


def _type_row(choice: "TypeChoice", here: str) -> tuple[str, ...]:
    if choice.type == here:
        even = ""
    elif choice.break_even is None:
        even = "at no density"
    else:
        even = f"{choice.break_even:,.3g} I/O/s/GiB"
    return (
        choice.type,
        _usd(choice.usd_month),
        f"{choice.gib:,.1f}",
        f"{choice.read_ms:.2f} ms",
        f"{choice.write_ms:.2f} ms",
        even,
    )


def _verdict(found: "Why") -> "Iterator[str]":
    here = next((one for one in found.types if one.type == found.type), None)
    others = [one for one in found.types if one.type != found.type]
    if here is None or not others:
        return
    best = others[0]
    more = best.usd_month - here.usd_month
    if more < 0:
        slower = f", but {best.read_ms / here.read_ms:.1f} × the read latency"
        slower = slower if best.read_ms > here.read_ms * 1.05 else ""
        yield f"  Next best: {best.type}, {_usd(-more)} a month less{slower}"
    else:
        yield f"  Next best: {best.type}, {_usd(more)} a month more"


def _volumes(found: "Why", now: "Performance") -> "Iterator[str]":
    for choice in found.volumes:
        change = choice.tps / now.tps - 1 if now.tps > 0 else 0.0
        commit = (
            "" if choice.commit_p99_ms is None else f", commit p99 {choice.commit_p99_ms:.2f} ms"
        )
        yield (
            f"  On volume {choice.volume}, nothing bought: {choice.tps:,.0f} TPS"
            f" ({change:+.1%}){commit}"
        )


def _usd(dollars: float) -> str:
    """A price; small ones with the digits that tell them apart."""
    return f"${dollars:,.2f}" if dollars >= 0.1 else f"${dollars:.4f}"
