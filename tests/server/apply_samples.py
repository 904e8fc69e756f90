"""What the tests of apply share: a server on plain directories, and runs of the command."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import in_process
import psycopg
from local_server import LocalServer

from pgstow import migration
from pgstow.layout_file import format_layout
from pgstow.model import (
    HostSpec,
    Layout,
    Placement,
    RelationId,
    ServerState,
    Step,
    Tablespace,
    Volume,
)
from pgstow.postgres import read_state
from pgstow.units import GIB, Bytes


@dataclass(frozen=True)
class Bench:
    """One server with two directories that stand for volumes beside that of its data."""

    server: LocalServer
    directory: Path

    @classmethod
    def of(cls, server: LocalServer) -> "Bench":
        directory = server.directory / "volumes"
        for name in ("fast", "wal"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        return cls(server, directory)

    @property
    def workspace(self) -> Path:
        return self.server.directory / "pgstow.db"

    def layout(
        self,
        relations: tuple[str, ...] = (),
        *,
        wal: str = "data",
        temp: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
        tablespace: str = "fast",
        location: str | None = None,
    ) -> Layout:
        mounts = {"data": self.server.data, "fast": self.directory / "fast"}
        mounts["wal"] = self.directory / "wal"
        space = Tablespace(
            tablespace, "fast", tuple(map(RelationId.parse, relations)), (), location
        )
        return Layout(
            HostSpec(),
            tuple(
                Volume(name, "local-nvme", Bytes(10 * GIB), str(path))
                for name, path in mounts.items()
            ),
            Placement("data", wal, temp, tuple((settings or {}).items())),
            (space,),
        )

    def present(self) -> Layout:
        from dataclasses import replace

        return replace(self.layout(), tablespaces=())

    def write(self, layout: Layout) -> Path:
        path = self.server.directory / "layout.toml"
        path.write_text(format_layout(layout))
        return path

    def state(self) -> ServerState:
        return read_state(self.server.dsn)

    def steps(self, layout: Layout) -> tuple[Step, ...]:
        return migration.steps(self.state(), self.present(), layout)

    def command(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            "-c",
            "from pgstow.cli import main; main()",
            "apply",
            *arguments,
            f"--dsn={self.server.dsn}",
            f"--workspace={self.workspace}",
            "--plain-directories",
        ]

    def apply(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Within this process; what is to be killed is started."""
        return in_process.run(self.command(*arguments, "--yes")[3:])

    def apply_layout(self, layout: Layout, *arguments: str) -> "subprocess.CompletedProcess[str]":
        result = self.apply(str(self.write(layout)), *arguments)
        assert result.returncode == 0, result.stderr + result.stdout
        return result

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*arguments, "--yes"),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ,
        )

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.server.dsn_for("postgres", database), autocommit=True) as session:
            for statement in statements:
                cursor = session.execute(statement)  # type: ignore[call-overload]
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def places(self, database: str = "postgres") -> dict[str, str]:
        """Each relation's tablespace."""
        rows = self.execute(
            "SELECT c.relname, coalesce(t.spcname, 'pg_default') FROM pg_class c"
            " LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace"
            " WHERE c.oid >= 16384 AND c.relkind IN ('r', 'm', 'i', 't')",
            database=database,
        )
        return dict(rows)


def report(result: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(result.stdout)
