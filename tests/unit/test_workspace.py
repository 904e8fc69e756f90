"""The project file: what is put in comes out, and what is wrong is said in one line."""

import os
import sqlite3
from pathlib import Path

import pytest
from observe_samples import LAYOUT, observation, server_sample

from pgstow.model import Layout, Profile, RelationId, Tablespace, WorkspaceError
from pgstow.model.errors import WorkspacePathError
from pgstow.observe import aggregate
from pgstow.workspace import Workspace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "investigation.db"


PROFILE = aggregate(observation([server_sample(0.0), server_sample(1.0)]))


def test_a_profile_comes_back_equal(path: Path) -> None:
    with Workspace.open(path) as workspace:
        number = workspace.add("profile", PROFILE)
    with Workspace.open(path) as workspace:
        assert workspace.latest("profile", Profile) == PROFILE
        assert workspace.get("profile", number, Profile) == PROFILE


def test_the_latest_is_the_one_added_last(path: Path) -> None:
    hostile = RelationId("d", 'we"ird\nschema', "<script>$(rm)'\\ \U0001f4a5")
    later = Layout(
        LAYOUT.host, LAYOUT.volumes, LAYOUT.postgres, (Tablespace("t", "data", (hostile,)),)
    )
    with Workspace.open(path) as workspace:
        assert workspace.latest("layout", Layout) is None
        workspace.add("layout", LAYOUT)
        workspace.add("layout", later)
        assert workspace.latest("layout", Layout) == later
        assert workspace.get("layout", 1, Layout) == LAYOUT
        assert workspace.get("profile", 1, Profile) is None
        assert [(entry.id, entry.kind) for entry in workspace.list("layout")] == [
            (1, "layout"),
            (2, "layout"),
        ]
        assert len(workspace.list()) == 2


def test_writes_are_durable(path: Path) -> None:
    with Workspace.open(path) as workspace:
        assert workspace.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert workspace.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_newer_format_is_refused(path: Path) -> None:
    Workspace.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(WorkspaceError, match=r"newer pgstow \(format 99\); upgrade pgstow"):
        Workspace.open(path)


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE precious (x)")
    before = path.read_bytes()
    with pytest.raises(WorkspaceError, match="another program"):
        Workspace.open(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("my notes\n" * 100)
    with pytest.raises(WorkspaceError, match="not a pgstow workspace"):
        Workspace.open(path)
    assert path.read_text().startswith("my notes")


def test_a_missing_workspace_is_made_only_if_wanted(path: Path) -> None:
    with pytest.raises(WorkspaceError, match="run pgstow observe first"):
        Workspace.open(path, create=False)
    assert not path.exists()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no-such"):
        Workspace.open(tmp_path / "no-such" / "x.db")
    with pytest.raises(WorkspaceError, match="is a directory"):
        Workspace.open(tmp_path)


def test_a_full_disk_loses_nothing_and_is_said(path: Path) -> None:
    with Workspace.open(path) as workspace:
        workspace.add("profile", PROFILE)
        pages = workspace.connection.execute("PRAGMA page_count").fetchone()[0]
        workspace.connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own full disk
        with pytest.raises(WorkspaceError, match="free space"):
            for _ in range(100):
                workspace.add("profile", PROFILE)
        workspace.connection.execute("PRAGMA max_page_count = 1000000")
        assert workspace.latest("profile", Profile) == PROFILE


def test_a_document_that_cannot_be_read_is_named(path: Path) -> None:
    with Workspace.open(path) as workspace:
        workspace.connection.execute(
            "INSERT INTO document (kind, created_at, json) VALUES ('profile', '', '{}')"
        )
        with pytest.raises(WorkspaceError, match=r"profile 1 in workspace .* cannot be read"):
            workspace.latest("profile", Profile)


def test_two_can_have_it_open(path: Path) -> None:
    with Workspace.open(path) as one, Workspace.open(path) as other:
        one.add("layout", LAYOUT)
        other.add("layout", LAYOUT)
        assert len(one.list("layout")) == 2


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_its_owner_may_read_a_new_workspace(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Workspace.open(path) as workspace:
            workspace.add("layout", LAYOUT)
            modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {path.name + end: 0o600 for end in ("", "-wal", "-shm")}


def test_an_earlier_workspace_is_closed_to_others(path: Path) -> None:
    with Workspace.open(path) as first:
        first.add("layout", LAYOUT)
        own = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
        for one in own:
            one.chmod(0o644)
        with Workspace.open(path, create=False) as workspace:
            assert workspace.is_private
            assert [one.stat().st_mode & 0o777 for one in own] == [0o600] * 3
            assert workspace.latest("layout", Layout) == LAYOUT


def test_who_cannot_close_it_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Workspace.open(path).close()
    path.chmod(0o644)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with Workspace.open(path) as workspace:
        assert not workspace.is_private


def test_a_file_of_another_program_keeps_its_mode(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE precious (x)")
    path.chmod(0o644)
    with pytest.raises(WorkspacePathError):
        Workspace.open(path)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["x" * 300, "", "file/x.db", "pipe", "/dev/null"])
@pytest.mark.parametrize("create", [False, True])
def test_a_path_that_can_be_no_workspace_is_the_users_mistake(
    path: Path, name: str, create: bool
) -> None:
    (path.parent / "file").touch()
    os.mkfifo(path.parent / "pipe")
    with pytest.raises(WorkspacePathError, match="workspace") as error:
        Workspace.open(path.parent / name if name else Path(name), create)
    assert error.value.exit_code == 2


def test_a_workspace_that_may_not_be_read_is_the_users_mistake(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", refuse)
        with pytest.raises(WorkspacePathError, match="Permission denied"):
            Workspace.open(path)


def test_reading_an_empty_file_does_not_make_a_workspace_of_it(path: Path) -> None:
    path.touch()
    with pytest.raises(WorkspacePathError, match="is empty"):
        Workspace.open(path, create=False)
    assert path.read_bytes() == b""


def test_a_workspace_without_a_file_holds_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Workspace.empty() as workspace:
        assert workspace.list() == ()
        assert workspace.latest("layout", Layout) is None
    assert list(tmp_path.iterdir()) == []
