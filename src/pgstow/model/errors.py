"""What can go wrong, as one family: a message that names the thing, and a remedy.

``code`` is stable, kebab-case; with ``--json`` it is what a program reads.
"""


class PgstowError(Exception):
    """Root of every error pgstow raises on purpose; ``exit_code`` is the process's exit status."""

    code = "failed"
    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """One line: what is wrong, then what to do about it."""
        text = f"{self.message}; {self.remedy}" if self.remedy else self.message
        return " ".join(text.split())


class UserError(PgstowError):
    """The user's mistake: what was asked cannot be."""

    code = "invalid-request"
    exit_code = 2


class LayoutError(UserError):
    """A layout that is malformed or impossible."""

    code = "invalid-layout"


class ServerError(PgstowError):
    """PostgreSQL could not be reached, refused, or failed."""

    code = "server"


class HostError(PgstowError):
    """The machine lacks something or a program on it failed."""

    code = "host"


class WorkspaceError(PgstowError):
    """The workspace file cannot be read or written."""

    code = "workspace"


class WorkspacePathError(UserError, WorkspaceError):
    """The path that was given names no workspace."""

    code = "workspace-path"


class InfeasibleError(UserError):
    """No layout meets the goal, which is proved; the message names the limits that conflict."""

    code = "infeasible"


class NotFoundError(PgstowError):
    """A search ended before it found a layout, or proved that there is none."""

    code = "not-found-in-time"
