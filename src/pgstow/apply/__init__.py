"""Take a migration's steps on a live server: locked, journaled, resumable, undoable."""

from pgstow.apply.live import checkpoint
from pgstow.apply.runner import run, undo
from pgstow.apply.values import Observer, Options, Outcome, Result
from pgstow.apply.wal_recovery import recover

__all__ = ["Observer", "Options", "Outcome", "Result", "checkpoint", "recover", "run", "undo"]
