"""The workspace: the project file that holds an investigation; the only package with sqlite3."""

from pgstow.workspace.journal import RunRecord
from pgstow.workspace.runs import RunEntry
from pgstow.workspace.store import DocumentType, Entry, Workspace

__all__ = ["DocumentType", "Entry", "RunEntry", "RunRecord", "Workspace"]
