"""Experiment files: TOML that says what is varied and measured, to the model's Experiment.

Every mistake is one line that names the file, the key, the value and the rule.
"""

from pgstow.experiment_file.reading import (
    experiment_names,
    find_experiment,
    parse_experiment,
    read_experiment,
    select,
)

__all__ = [
    "experiment_names",
    "find_experiment",
    "parse_experiment",
    "read_experiment",
    "select",
]
