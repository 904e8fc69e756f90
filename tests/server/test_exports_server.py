"""The SQL of an export in real PostgreSQL: it loads, and means what was measured."""

import sys
from pathlib import Path

import psycopg
import pytest
from local_server import LocalServer

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import experiment_page_samples as samples

from pgstow.report import ExperimentSection
from pgstow.report.exports import trials_sql


@pytest.mark.parametrize(
    "made", [samples.wal_split(2), samples.hostile(1)], ids=["plain", "hostile"]
)
def test_sql_loads_into_postgresql(server: LocalServer, made: ExperimentSection) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS exported CASCADE")
        connection.execute("CREATE SCHEMA exported")
        connection.execute("SET search_path = exported")
        connection.execute(trials_sql(made.experiment, made.trials, prefix="x").encode())
        found = connection.execute("SELECT id, tps, began_at FROM x_trial ORDER BY id").fetchall()
        ordered = sorted(made.trials, key=lambda one: (one.block, one.position))
        assert [tps for _, tps, _ in found] == [one.outcome.tps for one in ordered]
        assert [when.isoformat(timespec="milliseconds") for _, _, when in found] == [
            one.began_at for one in ordered
        ]
        levels = connection.execute(
            "SELECT level FROM x_level WHERE trial = 1 AND factor = %s",
            (made.experiment.compare,),
        ).fetchall()
        assert levels == [(dict(ordered[0].levels)[made.experiment.compare],)]
        (seconds,) = connection.execute("SELECT count(*) FROM x_second").fetchone() or (0,)
        assert seconds == sum(len(one.outcome.tps_samples) for one in made.trials)
        connection.execute("DROP SCHEMA exported CASCADE")
