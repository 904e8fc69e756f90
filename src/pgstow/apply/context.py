"""What every action of a run has at hand."""

from dataclasses import dataclass

from pgstow.apply.values import Observer, Options
from pgstow.apply.world import Clock, Server, World
from pgstow.model import ServerState
from pgstow.workspace.journal import Journal


@dataclass(frozen=True, slots=True)
class Context:
    """One run: the server as it was found, the world, its journal, its wishes, its watcher."""

    state: ServerState
    world: World
    journal: Journal
    options: Options
    observer: Observer

    @property
    def server(self) -> Server:
        """The server it is on."""
        return self.world.server

    @property
    def clock(self) -> Clock:
        """The time it goes by."""
        return self.world.clock
