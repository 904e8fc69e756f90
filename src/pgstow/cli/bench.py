"""``pgstow bench run``: an experiment, from its file to a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options
from pgstow.cli.bench_group import commands
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgstow.experiment.targets import ServerTarget, Target
    from pgstow.experiment.trial import Tools
    from pgstow.model import Experiment, Trial
    from pgstow.workspace import Workspace

_MOST_BLOCKS = 100
_FEWEST_BLOCKS = 6  # before a precision is judged: fewer say too little of their own spread

Name = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="A file, or the name of a study's experiment.")
]
Profile = Annotated[str, typer.Option(help="Which of the file's profiles: quick, full, ….")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="FACTOR=LEVEL,…", help="These levels of a factor alone."),
]
Blocks = Annotated[int | None, typer.Option(min=1, help="How many blocks; else as the file says.")]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="ci=PERCENT",
        help="Add blocks, 6 at least, until every ratio's 99% interval is at most ± this wide: "
        "ci=2%.",
    ),
]
Directory = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VOLUME=PATH",
        help="Instead of emulating it, the empty directory where a volume is mounted.",
    ),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME@DSN",
        help="AWS Secrets Manager's secret with the password of a server that the file names.",
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        min=0,
        max=20,
        help="Measure a trial again, so often at most, where a hypervisor kept more than 5 % of "
        "its processor time; what it took least from stands.",
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Begin a new run, also where one is unfinished.")
]


@dataclass(frozen=True, slots=True)
class RunGoal:
    """What the command line asks of a run."""

    experiment: "Experiment"
    target: "Target"
    tools: "Tools"
    half_width: float | None
    fresh: bool
    workspace: Path
    json: bool
    repeats: int = 0


@commands.command()
def run(
    name: Name,
    *,
    profile: Profile = "quick",
    only: Only = None,
    blocks: Blocks = None,
    until: Until = None,
    directory: Directory = None,
    secret: Secret = None,
    fresh: Fresh = False,
    repeats: Repeats = 1,
    dry_run: options.DryRun = False,
    workspace: options.Workspace = options.DEFAULT_WORKSPACE,
    json: options.Json = False,
) -> None:
    """Run an experiment: every treatment once in each block, in random order.

    Each trial is in the workspace when it ends, and without a terminal a line says so; a run that
    was interrupted goes on from there. pgstow bench EXPERIMENT is short for this command.
    Emulated volumes need root and a machine that does nothing else.

    Example: sudo pgstow bench run wal-split --until ci=2%
    """
    half_width = half_width_of(until)
    experiment = experiment_of(name, profile, only, blocks)
    if dry_run:
        tools_of(name).check(experiment)
        print_plan(experiment, _done(workspace, experiment), json)
        return
    run_to_end(
        RunGoal(
            experiment,
            _target(experiment, directory, secret),
            tools_of(name),
            half_width,
            fresh,
            workspace,
            json,
            repeats,
        )
    )


def experiment_of(
    name: str, profile: str, only: list[str] | None, blocks: int | None
) -> "Experiment":
    """The experiment as the command line narrows it."""
    from pgstow.experiment_file import read_experiment, select

    experiment = read_experiment(name, profile)
    selected: dict[str, list[str]] = {}
    for one in only or ():
        factor, equals, levels = one.partition("=")
        if not equals or not levels:
            raise UserError(f"--only {one!r} is not FACTOR=LEVEL,…", "write --only stripes=1,4")
        selected[factor] = levels.split(",")
    if selected:
        experiment = select(experiment, selected)
    return experiment if blocks is None else replace(experiment, blocks=blocks)


def half_width_of(until: str | None) -> float | None:
    """The half-width that ``--until`` asks for, of 1."""
    if until is None:
        return None
    kind, _, percent = until.partition("=")
    try:
        width = float(percent.removesuffix("%")) / 100
    except ValueError:
        width = 0.0
    if kind != "ci" or not 0 < width < 1:
        raise UserError(f"--until {until!r} is not ci=PERCENT", "write --until ci=2%")
    return width


def _target(
    experiment: "Experiment", directory: list[str] | None, secret: list[str] | None
) -> "Target":
    from pgstow.cli import bench_volumes
    from pgstow.experiment.targets import DirectoryTarget, EmulatedTarget

    if experiment.target == "server":
        if directory:
            what = f"experiment {experiment.name} runs on existing servers"
            raise UserError(f"--directory: {what}", "leave it out")
        return server_target(experiment, secret)
    if secret:
        what = f"experiment {experiment.name} makes its own servers, which have no passwords"
        raise UserError(f"--secret: {what}", "leave it out")
    if not directory:
        if experiment.target == "directories":
            remedy = "name each volume's: --directory data=/mnt/data"
            raise UserError(f"experiment {experiment.name} runs on mounted directories", remedy)
        return EmulatedTarget(make_volumes=bench_volumes.make)
    directories = []
    for one in directory:
        volume, equals, path = one.partition("=")
        if not equals or not path:
            raise UserError(f"--directory {one!r} is not VOLUME=PATH", "write data=/mnt/data")
        directories.append((volume, Path(path)))
    return DirectoryTarget(directories=tuple(directories))


def server_target(experiment: "Experiment", secret: list[str] | None) -> "ServerTarget":
    """The servers that the experiment names, with the secrets of their passwords."""
    from pgstow.experiment.targets import ServerTarget

    if experiment.target != "server":
        raise UserError(
            f"experiment {experiment.name} makes its own servers, with their data",
            f"run it: pgstow bench run {experiment.name}",
        )
    secrets = []
    for one in secret or ():
        name, at, dsn = one.partition("@")
        if not at or not dsn:
            raise UserError(f"--secret {one!r} is not NAME@DSN", "write rds/password@service=dlv")
        secrets.append((dsn, name))
    return ServerTarget(secrets=tuple(secrets))


def tools_of(name: str) -> "Tools":
    """What trials are made with; scripts are beside the experiment's file."""
    from pgstow.experiment.instruments import Recorder
    from pgstow.experiment.trial import Tools
    from pgstow.experiment.workloads import generator
    from pgstow.experiment_file import find_experiment

    return Tools(generator, Recorder, find_experiment(name).absolute().parent)


def run_to_end(goal: RunGoal) -> None:
    """Run or go on with a run until it is done and as precise as its target, then print it."""
    from pgstow.cli.bench_show import print_run
    from pgstow.workspace import Workspace

    with Workspace.open(goal.workspace) as store:
        number = open_run(store, goal)
        experiment = store.runs.experiment(number)
        if goal.half_width is not None and experiment.blocks < _FEWEST_BLOCKS:
            experiment = store.runs.widen(number, _FEWEST_BLOCKS)
        while True:
            _run_blocks(store, number, experiment, goal)
            trials = store.runs.trials(number)
            needed = blocks_needed(experiment, trials, goal.half_width)
            if needed <= experiment.blocks:
                break
            experiment = store.runs.widen(number, needed)
    print_run(number, experiment, trials, json=goal.json)


def open_run(store: "Workspace", goal: RunGoal) -> int:
    """The unfinished run of the same experiment, or one with fewer blocks; else a new one."""
    from pgstow.cli import output

    number = None if goal.fresh else store.runs.latest(goal.experiment)
    if number is None:
        return store.runs.begin(goal.experiment)
    present = store.runs.experiment(number)
    done = len(store.runs.done(number))
    more = goal.half_width is not None or goal.experiment.blocks > present.blocks
    if done >= present.blocks * len(present.treatments) and not more:
        return store.runs.begin(goal.experiment)
    output.error_console().print(
        f"going on with run {number}, which has {done} trials; --fresh begins anew", markup=False
    )
    store.runs.widen(number, goal.experiment.blocks)
    return number


def _run_blocks(store: "Workspace", number: int, experiment: "Experiment", goal: RunGoal) -> None:
    from pgstow.experiment.run import run as run_matrix

    done = store.runs.trials(number)
    tell = _TrialLines(len(done), experiment.blocks * len(experiment.treatments))

    def keep(trial: "Trial") -> None:
        store.runs.add(number, trial)
        tell(trial)

    with _progress(experiment) as progress:
        run_matrix(
            experiment,
            goal.target,
            goal.tools,
            on_trial=keep,
            done=done,
            progress=progress,
            repeats=goal.repeats,
        )


@dataclass
class _TrialLines:
    """A line for each trial that ended, where no terminal shows a bar; written at once."""

    ended: int
    planned: int

    def __call__(self, trial: "Trial") -> None:
        from pgstow.cli import output

        self.ended += 1
        console = output.error_console()
        if console.is_terminal:
            return
        levels = ", ".join(f"{factor} {level}" for factor, level in trial.levels)
        p99 = "" if trial.outcome.p99_ms is None else f", p99 {trial.outcome.p99_ms:.3g} ms"
        codes = "".join(f"; {warning.code}" for warning in trial.warnings)
        console.print(
            f"trial {self.ended} of {self.planned}: block {trial.block + 1}, {levels}: "
            f"{trial.outcome.tps:,.4g} TPS{p99}{codes}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        console.file.flush()


def blocks_needed(
    experiment: "Experiment", trials: "tuple[Trial, ...]", half_width: float | None
) -> int:
    """How many blocks there are to be, by the spread so far."""
    from pgstow.cli import output
    from pgstow.verification.experiments import compare, needed_blocks

    if half_width is None:
        return experiment.blocks
    found = compare(experiment, trials, "tps")
    wide = [one for one in found if (one.relative_half_width or 0.0) > half_width]
    if not wide:
        return experiment.blocks
    try:
        needed = max(needed_blocks(one, half_width) for one in wide)
    except UserError:  # more than anyone would run; what was measured is still to be shown
        needed = _MOST_BLOCKS + 1
    if needed > _MOST_BLOCKS:
        output.error_console().print(
            f"±{half_width:.1%} would take more than {_MOST_BLOCKS} blocks; stopped at"
            f" {experiment.blocks}: make the trials longer, or ask for a wider interval",
            markup=False,
            soft_wrap=True,
        )
        return experiment.blocks
    # half of what seems to be missing at a time: the spread so far may mislead
    return max(experiment.blocks + 1, (experiment.blocks + needed + 1) // 2)


@contextmanager
def _progress(experiment: "Experiment") -> "Iterator[Callable[[float, float, str], None]]":
    """A bar with the time left and what is being done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from pgstow.cli import output
    from pgstow.units import format_duration

    target = output.error_console()
    columns = (
        TextColumn(experiment.name, markup=False),
        BarColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as bar:
        task = bar.add_task("", total=None, left="")

        def update(done_s: float, total_s: float, what: str) -> None:
            left = f"{format_duration(max(total_s - done_s, 0))} left"
            bar.update(task, completed=done_s, total=total_s, description=what, left=left)

        yield update


def _done(workspace: Path, experiment: "Experiment") -> "tuple[Trial, ...]":
    """The trials of the run that would be gone on with."""
    from pgstow.workspace import Workspace

    if not workspace.exists():
        return ()
    with Workspace.open(workspace, create=False) as store:
        number = store.runs.latest(experiment)
        return () if number is None else store.runs.trials(number)


def print_plan(
    experiment: "Experiment", done: "tuple[Trial, ...]", json: bool, **more: object
) -> None:
    """The trials to come, in their order, and how long they will take; ``more`` is for JSON."""
    from pgstow.cli import output
    from pgstow.experiment.run import plan
    from pgstow.units import format_duration

    planned = plan(experiment, done)
    left_s = sum(trial.seconds for trial in planned if not trial.is_done)
    if json:
        plain = {"experiment": experiment, "trials": planned, "seconds": left_s}
        output.print_json(plain | more)
        return
    rows = [
        [
            str(trial.block + 1),
            *(level for _, level in trial.levels),
            f"{trial.seconds:.0f}",
            "done" if trial.is_done else "",
        ]
        for trial in planned
    ]
    output.console().print(output.table(("block", *experiment.factors, "s", ""), rows))
    output.console().print(f"about {format_duration(left_s)}")
