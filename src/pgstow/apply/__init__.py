"""Take a migration's steps on a live server: locked, journaled, resumable, undoable."""

from pgstow.apply.runner import run, undo
from pgstow.apply.values import Observer, Options, Outcome, Result
from pgstow.apply.wal import recover

__all__ = ["Observer", "Options", "Outcome", "Result", "recover", "run", "undo"]
