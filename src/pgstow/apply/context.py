"""What every action of a run has at hand."""

from dataclasses import dataclass

from pgstow.apply.sessions import Sessions
from pgstow.apply.values import Observer, Options
from pgstow.model import ServerState
from pgstow.workspace.journal import Journal


@dataclass(frozen=True, slots=True)
class Context:
    """One run: the server it is on, its sessions, its journal, its wishes, its watcher."""

    state: ServerState
    sessions: Sessions
    journal: Journal
    options: Options
    observer: Observer

    def location(self, tablespace: str) -> str | None:
        """A tablespace's directory, as the server had it when the run began."""
        if tablespace == "pg_default":
            return self.state.data_directory
        return next((t.location for t in self.state.tablespaces if t.name == tablespace), None)
