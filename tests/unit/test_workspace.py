"""The project file: what is put in comes out, and what is wrong is said in one line."""

import sqlite3
from pathlib import Path

import pytest
from observe_samples import LAYOUT, observation, server_sample

from pgstow.model import Layout, Profile, RelationId, Tablespace, WorkspaceError
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
