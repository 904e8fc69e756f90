"""``pgstow bench clear``: remove the loaded data that are kept for experiments' trials."""

from pgstow.cli import options
from pgstow.cli.bench_group import commands


@commands.command("clear")
def clear(*, dry_run: options.DryRun = False, json: options.Json = False) -> None:
    """Remove the loaded data that are kept for trials; what a run uses now stays.

    The next run loads its data again. Results in workspaces are not touched.

    Example: pgstow bench clear --dry-run
    """
    from pgstow.cli import output
    from pgstow.cli.names import shown
    from pgstow.experiment.targets.base_data import BaseStore, default_cache_directory
    from pgstow.units import format_size

    store = BaseStore(default_cache_directory())
    found = store.clear(dry_run=dry_run)
    unmanaged = [str(path) for path in store.unmanaged_directories()]
    freed_bytes = sum(one.size_bytes for one in found if not one.in_use)
    if json:
        answer = {"directory": str(store.directory), "is_dry_run": dry_run, "bases": found}
        output.print_json({**answer, "freed_bytes": freed_bytes, "unmanaged": unmanaged})
        return
    console = output.console()
    verb = "would remove" if dry_run else "removed"
    for one in found:
        action = "in use, stays" if one.in_use else verb
        line = f"{action}: {one.name}, {format_size(one.size_bytes)}, {one.directory}"
        console.print(shown(line), markup=False, soft_wrap=True)
    for name in unmanaged:
        console.print(shown(f"not pgstow's, stays: {name}"), markup=False, soft_wrap=True)
    total = f"{verb} {format_size(freed_bytes)} in {store.directory}" if found else ""
    text = total or f"no loaded data are kept in {store.directory}"
    console.print(shown(text), markup=False, soft_wrap=True)
