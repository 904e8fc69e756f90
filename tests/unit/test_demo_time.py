"""The demo's time: moves that fit into what is left of it, and the second window."""

from dataclasses import replace

from migration_samples import MIB, layout, server_state, table

from pgstow.cli.demo_time import bytes_that_fit, last_window_s, longest_s, moving_s
from pgstow.migration import steps
from pgstow.model import RelationId, Step

SMALL, LARGE = (RelationId("shop", "public", name) for name in ("small", "large"))


def migration() -> tuple[Step, ...]:
    """A tablespace, a move of 10 MiB in 5 s beside the load, one of 355 MiB in 282 s, pg_wal."""
    state = server_state(table(SMALL, 10 * MIB), table(LARGE, 355 * MIB))
    target_layout = layout(tablespaces={"fast": ("fast", (SMALL, LARGE))}, wal="wal")
    loaded = {SMALL: 5.0, LARGE: 282.0}
    return tuple(
        replace(step, seconds_loaded=loaded[step.relation]) if step.relation else step
        for step in steps(state, layout(), target_layout)
    )


def test_all_fits_where_there_is_time() -> None:
    assert bytes_that_fit(migration(), 400) is None
    assert bytes_that_fit((), 0) is None


def test_what_does_not_fit_is_not_counted_nor_what_comes_after_it() -> None:
    assert bytes_that_fit(migration(), 200) == 10 * MIB
    assert bytes_that_fit(migration(), 0) == 0


def test_without_a_known_load_the_idle_volumes_count() -> None:
    idle = tuple(replace(step, seconds_loaded=None) for step in migration())
    assert bytes_that_fit(idle, 60) is None


def test_a_demo_that_is_late_looks_for_a_shorter_time() -> None:
    total = longest_s(45)
    assert moving_s(total - 150, 12, 45) + 12 + 45 < total - 150
    assert moving_s(10, 12, 45) == 0
    assert last_window_s(200, 12, 45) == 45
    assert 15 <= last_window_s(40, 12, 45) < 45
    assert last_window_s(-100, 12, 45) == 15
