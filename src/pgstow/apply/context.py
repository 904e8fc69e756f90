"""What every step of a run is given."""

from dataclasses import dataclass

from pgstow.apply.values import Observer, Options
from pgstow.apply.world import Clock, Server, World
from pgstow.model import ServerState
from pgstow.workspace.journal import Journal


@dataclass(frozen=True, slots=True)
class Context:
    """One run: the server's state before it, the outside world, journal, options, observer."""

    state: ServerState
    world: World
    journal: Journal
    options: Options
    observer: Observer

    @property
    def server(self) -> Server:
        """The server that is changed."""
        return self.world.server

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.world.clock
