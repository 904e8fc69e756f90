"""Experiment files: what is read, and what is refused with which words."""

import re
from pathlib import Path

import pytest

from pgstow.experiment_file import parse_experiment, read_experiment, select
from pgstow.experiment_file.dotted import changed, joined, split_key
from pgstow.model import DataChoice, Experiment, Schedule, ServerChoice, UserError, WorkloadChoice
from pgstow.units import MIB

GOOD = """\
name = "stripes"
title = "One to four"
study = "striping"
compare = "stripes"
baseline = "1"
blocks = 5
seed = 7

[layout.host]
platform = "ec2"
region = "us-east-1"
[layout.volumes.data]
type = "gp3"
size = "100GiB"
[layout.postgres]
data = "data"

[server]
version = 18
memory = "256MiB"
[server.settings]
shared_buffers = "64MB"
jit = false

[data]
maker = "pgbench"
scale = 200
fillfactor = 80
unlogged = true

[workload]
name = "key-read"
clients = 16
threads = 2
rate = 10.5
[workload.variables]
rows = 8

[schedule]
warm_up = "5s"
duration = "30s"
caches = "cold"

[factors.stripes]
key = "layout.volumes.data.stripes"
levels = [1, 2, 4]

[factors.query.levels.key]
[factors.query.levels.batch]
"workload.name" = "batch-read"
"workload.clients" = 8

[profiles.quick]
blocks = 2
schedule.duration = "10s"
factors.query.levels = ["key"]
factors.stripes.levels = [1, 4]

[profiles.full]
"""


def read(text: str = GOOD, profile: str = "full") -> Experiment:
    return parse_experiment(text, "mine.toml", profile=profile)


def replaced(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_reads_every_table() -> None:
    experiment = read()
    assert (experiment.name, experiment.title, experiment.study) == (
        "stripes",
        "One to four",
        "striping",
    )
    assert (experiment.target, experiment.blocks, experiment.seed) == ("emulated", 5, 7)
    assert (experiment.compare, experiment.baseline, experiment.profile) == ("stripes", "1", "full")
    first = experiment.treatments[0]
    assert first.levels == (("stripes", "1"), ("query", "key"))
    assert first.server == ServerChoice(18, (("shared_buffers", "64MB"), ("jit", "off")), 256 * MIB)
    options = (("fillfactor", "80"), ("unlogged", "on"))
    assert first.data == DataChoice("pgbench", 200, options)
    assert first.workload == WorkloadChoice("key-read", 16, 2, 10.5, (("rows", 8),))
    assert first.schedule == Schedule(duration_s=30, warm_up_s=5, caches="cold")
    assert first.layout is not None
    assert first.layout.volume("data").mount == "/mnt/data"  # only a name


def test_treatments_are_all_combinations_in_the_files_order() -> None:
    experiment = read()
    assert [treatment.name for treatment in experiment.treatments] == [
        "stripes 1, query key",
        "stripes 1, query batch",
        "stripes 2, query key",
        "stripes 2, query batch",
        "stripes 4, query key",
        "stripes 4, query batch",
    ]
    last = experiment.treatments[-1]
    assert last.layout is not None
    assert last.layout.volume("data").stripes == 4
    assert (last.workload.name, last.workload.clients, last.workload.threads) == (
        "batch-read",
        8,
        2,
    )


def test_a_profile_changes_any_key() -> None:
    experiment = read(profile="quick")
    assert experiment.blocks == 2
    assert {treatment.schedule.duration_s for treatment in experiment.treatments} == {10}
    assert experiment.levels_of("stripes") == ("1", "4")
    assert experiment.levels_of("query") == ("key",)


def test_a_file_without_profiles_is_taken_as_it_is_written() -> None:
    experiment = read(GOOD[: GOOD.index("[profiles.quick]")], profile="quick")
    assert (experiment.blocks, experiment.profile) == (5, "")


def test_excluded_combinations_are_left_out() -> None:
    text = GOOD + '[[exclude]]\nquery = "batch"\nstripes = ["2", "4"]\n'
    names = [treatment.name for treatment in read(text).treatments]
    assert names == [
        "stripes 1, query key",
        "stripes 1, query batch",
        "stripes 2, query key",
        "stripes 4, query key",
    ]
    assert len(read(text, "quick").treatments) == 2  # which has not the excluded level at all


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("layout.volumes.data.type", '["gp3", "gp2"]', ("gp3", "gp2")),
        ("layout.volumes.data.filesystem", '["xfs", "ext4"]', ("xfs", "ext4")),
        ("layout.volumes.data.mkfs_options", '[[], ["-l size=64m"]]', ("none", "-l size=64m")),
        (
            "layout.volumes.data.mount_options",
            '[["noatime"], ["noatime", "discard"]]',
            ("noatime", "noatime discard"),
        ),
        ("layout.volumes.data.iops", "[3000, 6000]", ("3000", "6000")),
        ("layout.host.instance", '["r6i.large", "r6i.xlarge"]', ("r6i.large", "r6i.xlarge")),
        ("server.settings.wal_compression", "[true, false]", ("on", "off")),
        ("server.version", "[16, 18]", ("16", "18")),
        ("server.memory", '{ small = "128MiB", large = "1GiB" }', ("small", "large")),
        ("data.scale", "[100, 200]", ("100", "200")),
        ("workload.rate", "[10.0, 12.5]", ("10", "12.5")),
        ("schedule.caches", '["cold", "warm"]', ("cold", "warm")),
        ('server.settings.\\"auto_explain.log_analyze\\"', "[true, false]", ("on", "off")),
    ],
)
def test_anything_can_be_a_factor(key: str, values: str, names: tuple[str, ...]) -> None:
    text = GOOD[: GOOD.index("[factors.stripes]")]
    text = text.replace('compare = "stripes"\nbaseline = "1"\n', "")
    experiment = read(f'{text}[factors.x]\nkey = "{key}"\nlevels = {values}\n')
    assert (experiment.compare, experiment.baseline) == ("x", names[0])  # the only one, the first
    assert experiment.levels_of("x") == names
    without = {(t.layout, t.server, t.data, t.workload, t.schedule) for t in experiment.treatments}
    assert len(without) == 2


def test_a_level_brings_volumes_and_tablespaces_of_its_own() -> None:
    text = replaced('[factors.query.levels.batch]\n"workload.name" = "batch-read"\n', "")
    text = text.replace(
        '"workload.clients" = 8\n',
        """\
[factors.query.levels.apart.layout]
postgres.wal = "wal"
volumes.wal = { type = "io2", size = "10GiB", iops = 1000 }
[factors.query.levels.apart.layout.tablespaces.cold]
volume = "wal"
""",
    )
    apart = read(text).treatments[1].layout
    assert apart is not None
    assert [volume.name for volume in apart.volumes] == ["data", "wal"]
    assert (apart.postgres.wal, apart.tablespaces[0].volume) == ("wal", "wal")


def test_a_layout_may_be_a_file_beside_the_experiment(tmp_path: Path) -> None:
    layout = '[host]\nplatform = "local"\n[volumes.data]\ntype = "local-ssd"\nsize = "9GiB"\n'
    (tmp_path / "other.toml").write_text(layout + '[postgres]\ndata = "data"\n')
    text = GOOD[: GOOD.index("[factors.stripes]")]
    text = text.replace('compare = "stripes"\nbaseline = "1"\n', "")
    text += "[factors.layout.levels.written]\n"
    text += '[factors.layout.levels.other]\nlayout = "other.toml"\n'
    text += '[factors.stripes]\nkey = "layout.volumes.data.stripes"\nlevels = [1, 2]\n'
    (tmp_path / "mine.toml").write_text('compare = "layout"\n' + text)
    experiment = read_experiment(tmp_path / "mine.toml")
    volumes = [one.layout.volume("data") for one in experiment.treatments if one.layout]
    assert [one.type for one in volumes] == ["gp3", "gp3", "local-ssd", "local-ssd"]
    assert [one.stripes for one in volumes] == [1, 2, 1, 2]


SERVER = """\
name = "mine"
target = "server"
blocks = 3
side_by_side = true
[data]
maker = "pgbench"
scale = 100
[workload]
name = "simple-update"
clients = 64
[schedule]
duration = "10min"
[factors.log_volume]
key = "server.dsn"
levels = { without = "service=without", with = "service=with" }
"""


def test_servers_that_are_there_are_named_by_dsn() -> None:
    experiment = parse_experiment(SERVER, "mine.toml")
    assert [treatment.dsn for treatment in experiment.treatments] == [
        "service=without",
        "service=with",
    ]
    assert experiment.side_by_side
    assert experiment.treatments[0].layout is None


@pytest.mark.parametrize(
    "secret",
    [
        "host=db password=hunter2",
        "PASSWORD = 'hunter2' host=db",
        "postgresql://me:hunter2@db/shop",
        "postgres://db/shop?user=me&password=hunter2",
        "host=db sslpassword=hunter2",
    ],
)
def test_a_password_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(UserError, match="use a password file, a service file or") as raised:
        parse_experiment(SERVER.replace('"service=with"', f'"{secret}"'), "mine.toml")
    assert "factors.log_volume.levels.with: holds a password" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "harmless",
    ["postgresql://me@db:5432/shop?target=a@b", "host=db passfile=/etc/pgpass", "service=password"],
)
def test_what_only_looks_like_a_password_is_not_refused(harmless: str) -> None:
    experiment = parse_experiment(SERVER.replace("service=without", harmless), "mine.toml")
    assert experiment.treatments[0].dsn == harmless


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "data.stripes",
            "data.strips",
            "factors.stripes level 1: layout.volumes.data.strips: unknown key; did you mean",
        ),
        (
            "data.stripes",
            "dta.stripes",
            "factors.stripes level 1: layout.volumes.dta.stripes: the layout has no volume dta; "
            "did you mean data",
        ),
        (
            '"workload.clients"',
            '"workload.client"',
            "factors.query level batch: workload.client: unknown key; did you mean clients",
        ),
        (
            '"workload.clients"',
            '"worklod.clients"',
            "factors.query.levels.batch: worklod.clients: is nothing that a factor can change; "
            "did you mean workload",
        ),
        (
            'key = "layout.',
            'key = "blocks.',
            "factors.stripes.key: blocks.volumes.data.stripes: is",
        ),
        ('key = "layout.', 'key = "layout..', "is no dotted key; write it like schedule.duration"),
        ('key = "layout.volumes.data.stripes"\n', "", "factors.stripes.key: is missing; say which"),
        (
            "[1, 2, 4]",
            "[1, 2, 2]",
            "factors.stripes.levels: 2 is there twice; name each level once",
        ),
        ("[1, 2, 4]", "[]", "factors.stripes.levels: has none; give the factor its levels"),
        ("[1, 2, 4]", "[1, { a = 1 }]", "a table has no short name; give it a name: levels ="),
        (
            "[1, 2, 4]",
            '[1, "two"]',
            'factors.stripes level two: layout.volumes.data.stripes: "two": input should be',
        ),
        ("[1, 2, 4]", "[1, 200]", "stripes 200, query key: volume data: stripes must be 1 to 128"),
        ("levels = [1", "level = [1", "factors.stripes.level: unknown key; did you mean levels"),
        ("blocks = 5", "blocs = 5", "mine.toml: blocs: unknown key; did you mean blocks"),
        ("blocks = 5", "blocks = 0", "experiment stripes needs at least one block, not 0"),
        ('compare = "stripes"', 'compare = "strips"', 'compare: "strips": there is no such factor'),
        (
            'compare = "stripes"\n',
            "",
            "compare: is missing; name the factor it is about, of stripe",
        ),
        (
            'baseline = "1"',
            'baseline = "3"',
            'baseline: "3": factor stripes has no such level; use',
        ),
        ('name = "stripes"\n', "", "mine.toml: name: is missing; see docs/reference/experiment.md"),
        (
            '"30s"',
            "30",
            "schedule.duration: 30: a duration is text with its unit; write it like 30s",
        ),
        ('"30s"', '"0.5s"', "stripes 1, query key: a trial measures for at least 1 s, not 0.5"),
        ('"256MiB"', "256", "server.memory: 256: a size is text with its unit"),
        ("unlogged = true", "unloged = true", "data.unloged: unknown key; did you mean unlogged"),
        (
            "fillfactor = 80",
            "fillfactor = 8",
            "data.fillfactor: 8: input should be greater than or",
        ),
        ("clients = 16", "clients = 0", "workload key-read needs at least one client"),
        ("rate = 10.5", "rate = 0", "workload key-read: a rate must be over 0, not 0"),
        ('"cold"', '"colder"', "schedule.caches: \"colder\": input should be 'cold' or 'warm'"),
        (
            'type = "gp3"',
            'type = "gp5"',
            "stripes 1, query key: volumes.data.type: the catalog has",
        ),
        ('type = "gp3"', 'type = "gp3"\niops = 100', "volumes.data.iops: 100 is under gp3's least"),
        ('size = "100GiB"\n', "", "layout.volumes.data.size: is missing"),
        ('maker = "pgbench"\n', "", "data.maker: is missing"),
        (
            '"batch-read"\n"workload.clients" = 8',
            '"key-read"',
            "factors.query: levels key and batch come to the same; let one change something",
        ),
        (
            "seed = 7",
            'seed = 7\ntarget = "server"',
            "server.dsn: is missing; name the server, like",
        ),
        ("version = 18", 'dsn = "service=a"', "server.dsn: is for a server that is there already"),
        ('study = "striping"', 'layout = "no.toml"', "line 9, column"),
        (
            "[profiles.full]",
            "[profiles.full]\nblocs = 3",
            "mine.toml: profiles.full: blocs: unknown key; did you mean blocks",
        ),
        (
            "[profiles.full]",
            "[profiles.full]\nschedule.durtion = '3s'",
            "profiles.full: schedule.durtion: unknown key; did you mean duration",
        ),
        (
            "[profiles.full]",
            "[profiles.full]\nlayout.volumes.dat.iops = 3000",
            "profiles.full: layout.volumes.dat.iops: the layout has no volume dat; did",
        ),
        (
            "[profiles.full]",
            '[profiles.full]\nfactors.query.levels = ["keys"]',
            'profiles.full: factors.query.levels: "keys": there is no such level; did you mean key',
        ),
        (
            "[profiles.full]",
            "[profiles.fast]",
            "there is no profile 'full'; use one of: fast, quick",
        ),
        (
            "[profiles.full]",
            '[profiles.full]\n[[exclude]]\nquerry = "key"',
            "exclude[0].querry: the experiment has no such factor; did you mean query",
        ),
        (
            "[profiles.full]",
            '[profiles.full]\n[[exclude]]\nstripes = "3"',
            'exclude[0].stripes: "3": the factor has no such level; use one of: 1, 2, 4',
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_it(old: str, new: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        read(replaced(old, new))
    text = str(raised.value)
    assert text.startswith("mine.toml: ")
    assert says.lower() in text.lower()
    assert "\n" not in text
    assert raised.value.exit_code == 2


def test_a_load_may_be_a_number_of_transactions_with_commits_timed_beside_it() -> None:
    text = GOOD.replace("rate = 10.5", "transactions = 500000\nsampling_rate = 0.1")
    text = text.replace('warm_up = "5s"', "commit_probe = 10").replace("caches", "# caches")
    found = read(text).treatments[0]
    assert (found.workload.transactions, found.workload.sampling_rate) == (500_000, 0.1)
    assert found.schedule.commit_probe_per_s == 10


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rate = 10.5", "transactions = 0", "transactions must be at least 1, not 0"),
        ("rate = 10.5", "transactions = 5", "has no warm-up: all of it is measured"),
        ("rate = 10.5", "sampling_rate = 0", "over 0 and at most 1, not 0"),
        ("rate = 10.5", "sampling_rate = 1.5", "over 0 and at most 1, not 1.5"),
        ('duration = "30s"', 'duration = "30s"\ncommit_probe = -1', "must be 0 to 100 a second"),
        ('duration = "30s"', 'duration = "30s"\ncommit_probe = 1000', "must be 0 to 100 a second"),
    ],
)
def test_a_load_that_cannot_be_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        read(GOOD.replace(old, new, 1))


def test_levels_alike_on_purpose_are_an_a_a_experiment() -> None:
    alike = GOOD.replace('"batch-read"\n"workload.clients" = 8', '"key-read"')
    alike = alike.replace(
        "[factors.query.levels.key]",
        "[factors.query]\nidentical = true\n[factors.query.levels.key]",
    )
    assert len(read(alike).treatments) == 6


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"experiment file .*none\.toml does not exist"):
        read_experiment(tmp_path / "none.toml")
    with pytest.raises(UserError, match="there is no experiment 'strping'; did you mean striping"):
        read_experiment("strping")
    (tmp_path / "mine.toml").write_text(GOOD.replace("[schedule]", "[schedule]\nwarmup = '1s'"))
    with pytest.raises(UserError, match=r"mine\.toml: schedule\.warmup: unknown key; did you mean"):
        read_experiment(tmp_path / "mine.toml")


# only some levels -----------------------------------------------------------------------------


def test_levels_can_be_chosen_on_the_way() -> None:
    chosen = select(read(), {"stripes": ["1", "4"], "query": ["batch"]})
    names = [treatment.name for treatment in chosen.treatments]
    assert names == ["stripes 1, query batch", "stripes 4, query batch"]
    assert select(read(), {}) == read()


@pytest.mark.parametrize(
    ("only", "says"),
    [
        ({"strips": ["1"]}, "has no factor strips; did you mean stripes"),
        ({"stripes": ["1", "3"]}, "factor stripes of experiment stripes has no level 3; use one"),
        ({"stripes": ["4"]}, "level 1 of stripes is the baseline; select it too"),
        ({"query": []}, "has no treatment of these levels together"),
    ],
)
def test_unknown_choices_are_refused(only: dict[str, list[str]], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        select(read(), only)


# dotted keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [("a",), ("a", "b"), ("server", "settings", "a.b"), ("a b", "c")])
def test_dotted_keys_are_read_back(path: tuple[str, ...]) -> None:
    assert split_key(joined(path)) == path


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", 'a"b'])
def test_what_is_no_dotted_key(key: str) -> None:
    with pytest.raises(ValueError, match="is no dotted key"):
        split_key(key)


def test_a_change_leaves_the_tables_it_is_made_of() -> None:
    tables = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert changed(tables, ("a", "c", "x"), [1]) == {"a": {"b": 1, "c": {"d": 2, "x": [1]}}, "e": 3}
    assert changed(tables, ("a", "b", "new"), 4)["a"] == {"b": {"new": 4}, "c": {"d": 2}}
    assert tables == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
