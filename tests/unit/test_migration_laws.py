"""Laws of migration: it arrives, it resumes wherever it stopped, every state between is legal."""

from hypothesis import given
from hypothesis import strategies as st
from migration_samples import MIB, index, layout, server_state, table

from pgstow.migration import after, inverse, steps
from pgstow.model import Layout, Relation, RelationId, ServerState, Step, TablespaceState

SPACES = {"fast": "fast", "slow": "bulk", 'odd "one"': "bulk"}
OPTIONS = st.dictionaries(
    st.sampled_from(["random_page_cost", "seq_page_cost"]), st.sampled_from(["1.1", "4"])
)
NAMES = [RelationId(db, "public", f"r{n}") for db in ("shop", "log") for n in range(5)]


@st.composite
def states(draw: st.DrawFn) -> ServerState:
    """A server with some tablespaces, and relations anywhere in them."""
    present = draw(st.lists(st.sampled_from([*SPACES, "theirs", "old"]), unique=True))
    spaces = tuple(
        TablespaceState(
            name,
            f"/mnt/{SPACES.get(name, 'bulk')}/{name.replace(' ', '').replace(chr(34), '')}",
            tuple(draw(OPTIONS).items()),
        )
        for name in present
    )
    relations: list[Relation] = []
    for name in NAMES:
        space = draw(st.sampled_from(["pg_default", *present]))
        size = draw(st.integers(0, 5)) * MIB
        if draw(st.booleans()):
            relations.append(table(name, size, tablespace=space))
            toast = RelationId(name.database, "pg_toast", f"toast_{name.name}")
            relations.append(table(toast, size, kind="toast", tablespace=space, table=name))
        else:
            exclusion = draw(st.booleans())
            relations.append(index(name, NAMES[0], size, tablespace=space, is_exclusion=exclusion))
    settings = draw(
        st.dictionaries(st.just("random_page_cost"), st.sampled_from(["1.1", "4", "1.10"]))
    )
    return server_state(*relations, tablespaces=spaces, settings=settings)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A layout with some of the tablespaces, WAL and temp anywhere."""
    listed = draw(st.lists(st.sampled_from(list(SPACES)), unique=True))
    placed = {name: draw(st.sampled_from([*listed, None])) for name in NAMES}
    return layout(
        tablespaces={
            space: (SPACES[space], tuple(n for n in NAMES if placed[n] == space))
            for space in listed
        },
        options={space: draw(OPTIONS) for space in listed},
        settings=draw(st.dictionaries(st.just("random_page_cost"), st.just("1.1"))),
        temp=tuple(draw(st.lists(st.sampled_from(["data", "fast", "bulk"]), unique=True))),
        wal=draw(st.sampled_from(["data", "wal"])),
    )


def plan(state: ServerState, target_layout: Layout, *, prune: bool) -> tuple[Step, ...]:
    return steps(state, layout(), target_layout, prune=prune, made=frozenset({"old"}))


@given(states(), layouts(), st.booleans())
def test_after_all_steps_there_are_none_left(
    state: ServerState, target_layout: Layout, prune: bool
) -> None:
    for step in plan(state, target_layout, prune=prune):
        state = after(state, step)  # asserts that the step is legal there
    assert plan(state, target_layout, prune=prune) == ()


@given(states(), layouts(), st.booleans())
def test_planning_again_after_any_step_gives_the_remaining_ones(
    state: ServerState, target_layout: Layout, prune: bool
) -> None:
    taken = plan(state, target_layout, prune=prune)
    for position, step in enumerate(taken):
        remaining = plan(state, target_layout, prune=prune)
        assert essence(remaining) == essence(taken[position:])
        state = after(state, step)


@given(states(), layouts(), st.booleans())
def test_going_back_restores_the_server(
    state: ServerState, target_layout: Layout, prune: bool
) -> None:
    taken = plan(state, target_layout, prune=prune)
    reached = state
    for step in taken:
        reached = after(reached, step)
    for step in reversed(taken):
        reached = after(reached, inverse(step))
    assert comparable(reached) == comparable(state)


def essence(taken: tuple[Step, ...]) -> list[object]:
    """What a step does; its estimate may change with where its table is by now."""
    return [(step.kind, step.subject, step.arguments, step.undo_arguments) for step in taken]


def comparable(state: ServerState) -> object:
    spaces = {space.name: (space.location, dict(space.options)) for space in state.tablespaces}
    settings = {name: value for name, value in state.settings if name != "temp_tablespaces"}
    return spaces, settings, state.relations, state.wal_directory
