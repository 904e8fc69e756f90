"""The commands and files that lead to a page again."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgstow.cli.loop import Loop
    from pgstow.model import Goal, Profile
    from pgstow.report import ReportDocument

_PRESENT, _TARGET = "present.toml", "target.toml"


def commands(document: "ReportDocument", found: "Loop") -> tuple[str, ...]:
    """The commands, with what was asked of them; the connection string is the reader's to fill."""
    lines = []
    profile, after = document.profile, document.profile_after
    if profile is not None:
        lines.append(f"pgstow observe {_window(profile)} --layout {_PRESENT} --name before")
    if document.plan is not None:
        lines.append(f"pgstow plan --profile before{_goal(document.plan.goal)} --out {_TARGET}")
    if document.plan is not None or found.applied is not None:
        restart = any(one.step.needs_restart for one in document.steps)
        lines.append(f'pgstow diff {_TARGET} --dsn "$DSN"')
        lines.append(f'pgstow apply {_TARGET} --dsn "$DSN"{" --restart" if restart else ""}')
    if after is not None:
        lines.append(f"pgstow verify {_TARGET} {_window(after)}")
    return (*lines, "pgstow report")


def layout_files(document: "ReportDocument") -> tuple[tuple[str, str], ...]:
    """The layout files that the commands name."""
    from pgstow.layout_file import format_layout

    pairs = ((_PRESENT, document.layout_before), (_TARGET, document.layout_after))
    return tuple((name, format_layout(one)) for name, one in pairs if one is not None)


def _window(profile: "Profile") -> str:
    """How long and how often was looked, and how often a commit was timed."""
    seconds = max(1, round(profile.seconds))
    every = max(1, round(profile.seconds / max(1, profile.samples - 1)))
    parts = ['--dsn "$DSN"', f"--duration {seconds}s", f"--interval {min(every, seconds)}s"]
    if profile.commit_ms:
        parts.append(f"--commit-probe {max(1, round(len(profile.commit_ms) / seconds))}")
    return " ".join(parts)


def _goal(goal: "Goal") -> str:
    import shlex

    from pgstow.units import format_exact_size

    usual = type(goal)()
    parts = [
        f"--commit-p99 {goal.commit_p99_ms:g}ms" if goal.commit_p99_ms is not None else "",
        f"--read-p99 {goal.read_p99_ms:g}ms" if goal.read_p99_ms is not None else "",
        f"--tps {goal.tps:.0f}" if goal.tps is not None else "",
        f"--headroom {goal.headroom:g}" if goal.headroom != usual.headroom else "",
        f"--budget {goal.budget_usd_month:.2f}" if goal.budget_usd_month is not None else "",
        f"--horizon {goal.horizon_s / 86400:.0f}d" if goal.horizon_s is not None else "",
        *(f"--allow {name}" for name in goal.allow_types),
        *(f"--forbid {name}" for name in goal.forbid_types),
        *(f"--pin {shlex.quote(f'{what}={where}')}" for what, where in goal.pins),
        f"--max-move {format_exact_size(goal.max_move_bytes)}"
        if goal.max_move_bytes is not None
        else "",
        f"--instance {goal.instance}" if goal.instance is not None else "",
        "--any-instance" if goal.any_instance else "",
        f"--max-volumes {goal.max_volumes}" if goal.max_volumes != usual.max_volumes else "",
        f"--max-stripes {goal.max_stripes}" if goal.max_stripes != usual.max_stripes else "",
        f"--max-failure-rate {goal.max_failure_rate * 100:g}%"
        if goal.max_failure_rate is not None
        else "",
        "--data-on-instance-store" if goal.data_on_ephemeral else "",
        f"--backup {format_exact_size(goal.backup_bytes)}" if goal.backup_bytes is not None else "",
        "" if goal.settings else "--no-settings",
    ]
    return "".join(f" {part}" for part in parts if part)
