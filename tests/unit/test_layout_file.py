"""Layout files: what is read, what is refused with which words, and that writing reads back."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgstow.catalog import load
from pgstow.layout_file import format_layout, parse_layout, read_layout, read_volumes
from pgstow.model import (
    HostSpec,
    Layout,
    LayoutError,
    MeasuredLatency,
    Placement,
    RelationId,
    Tablespace,
    UserError,
    Volume,
)
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

GOOD = """\
[host]
platform = "ec2"
region = "us-east-1"
instance = "r6i.2xlarge"

[volumes.data]
type = "gp3"
size = "500GiB"
iops = 6000
throughput = "250MiB/s"
stripes = 1
filesystem = "xfs"
mount_options = ["noatime"]
mount = "/mnt/pgdata"

[volumes.wal]
type = "io2"
size = "50GiB"
iops = 4000
mount = "/mnt/pgwal"

[postgres]
data = "data"
wal = "wal"
temp = ["data"]
[postgres.settings]
random_page_cost = 1.1
jit = false
wal_compression = "zstd"

[tablespaces.cold]
volume = "data"
options = { random_page_cost = 4.0 }
relations = ["shop.public.old_articles", "shop.public.\\"Odd \\"\\"name\\"\\"\\""]
"""


def test_reads_the_design() -> None:
    layout = parse_layout(GOOD, "layout.toml")
    assert layout.host == HostSpec("ec2", "us-east-1", "r6i.2xlarge")
    data = layout.volume("data")
    assert data.size_bytes == 500 * GIB
    assert data.iops == Iops(6000)
    assert data.throughput == BytesPerSecond(250 * MIB)
    wal = layout.volume("wal")
    assert (wal.throughput, wal.filesystem, wal.mount_options) == (None, "xfs", ("noatime",))
    assert dict(layout.postgres.settings) == {
        "random_page_cost": "1.1",
        "jit": "off",
        "wal_compression": "zstd",
    }
    (cold,) = layout.tablespaces
    assert cold.options == (("random_page_cost", "4.0"),)
    assert cold.relations[1] == RelationId("shop", "public", 'Odd "name"')
    assert cold.location is None


def test_the_reference_page_shows_a_layout_that_can_be_bought() -> None:
    page = Path(__file__).parents[2] / "docs/reference/layout.md"
    (block,) = re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    layout = parse_layout(block, str(page))
    assert {warning.code for warning in load().check(layout)} == {"host-cap-throughput", "hdd"}


def test_writes_what_a_person_would() -> None:
    text = format_layout(parse_layout(GOOD, "layout.toml"))
    for line in (
        'size = "500GiB"',
        "iops = 6000",
        'throughput = "250MiB/s"',
        "random_page_cost = 1.1",
        "options = { random_page_cost = 4.0 }",
        '  "shop.public.old_articles",',
    ):
        assert f"{line}\n" in text
    assert "stripes" not in text


def test_the_wal_is_with_the_data_unless_said() -> None:
    layout = parse_layout(GOOD.replace('wal = "wal"\n', ""), "layout.toml")
    assert layout.postgres.wal == "data"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("iops = 6000", "iosp = 6000", "volumes.data.iosp: unknown key; did you mean iops"),
        (
            "iops = 6000",
            "zzz = 1",
            "volumes.data.zzz: unknown key; use one of: burst_credits, chunk",
        ),
        ("[host]", "[hots]", "hots: unknown key; did you mean host"),
        ("[postgres.settings]", "[postgres.setings]", "postgres.setings: unknown key"),
        ('volume = "data"', 'volum = "data"', "tablespaces.cold.volum: unknown key"),
        ("iops = 6000", 'iops = "6000"', 'volumes.data.iops: "6000": input should be a valid'),
        ("iops = 6000", "iops = -1", "volumes.data.iops: -1: input should be greater than 0"),
        ("iops = 6000", "iops = nan", "volumes.data.iops: NaN: input should be a finite number"),
        ("iops = 6000", "iops = true", "volumes.data.iops: true: input should be a valid number"),
        ('"500GiB"', "500", "volumes.data.size: 500: a size is text with its unit; write it like"),
        ('"500GiB"', '"500 gig"', "volumes.data.size: '500 gig' is not a size; write it like 500"),
        ('"500GiB"', '"0GiB"', 'volumes.data.size: "0GiB": input should be greater than 0'),
        ('size = "500GiB"\n', "", "volumes.data.size: is missing"),
        ('size = "500GiB"', 'size "500GiB"', "line 8, column 6: expected '='"),
        ('"250MiB/s"', '"250MiB"', "volumes.data.throughput: '250MiB' is not a bandwidth"),
        ('"250MiB/s"', "250", "volumes.data.throughput: 250: a bandwidth is text with its unit"),
        ('"ec2"', '"aws"', "host.platform: \"aws\": input should be 'ec2', 'rds'"),
        ('filesystem = "xfs"', 'filesystem = "zfs"', 'volumes.data.filesystem: "zfs"'),
        ("stripes = 1", "stripes = 0", "volume data: stripes must be 1 to 128, not 0"),
        ("stripes = 1", "stripes = 1.5", "volumes.data.stripes: 1.5"),
        ('["noatime"]', '"noatime"', 'volumes.data.mount_options: "noatime"'),
        ('wal = "wal"', 'wal = "wall"', "postgres.wal names volume 'wall', which the layout does"),
        ("/mnt/pgwal", "/mnt/pgdata", "mount '/mnt/pgdata' is named twice"),
        ("/mnt/pgwal", "//mnt/./pgdata/", "mount '/mnt/pgdata' is named twice"),
        ("/mnt/pgwal", "pgwal", "mount 'pgwal' must be an absolute path"),
        ("[volumes.wal]", '[volumes."a b"]', "volume name 'a b' is not usable"),
        ("= 1.1", "= [1]", "postgres.settings.random_page_cost: [1]: a setting is a number"),
        ("= 1.1", "= inf", "postgres.settings.random_page_cost: Infinity: a setting is a number"),
        ("shop.public.old_articles", "shop.old", "relations[0]: relation 'shop.old' is not"),
        ("[tablespaces.cold]", "[tablespaces.pg_cold]", "tablespace name 'pg_cold' is reserved"),
        ("stripes = 1", "burst_credits = 1.5", "volumes.data.burst_credits: 1.5: input should be"),
        ("stripes = 1", "from_snapshot = 1", "volumes.data.from_snapshot: 1: input should be"),
        ("stripes = 1", "fast_snapshot_restore = true", "write from_snapshot = true, or drop fast"),
        (
            "stripes = 1",
            'from_snapshot = true\nfast_snapshot_restore = true\ninitialization_rate = "1MiB/s"',
            "volumes.data.initialization_rate: replaces a fast snapshot restore",
        ),
        ('"r6i.2xlarge"', '"r6i.2xlarge"\nburst_credits = -1', "host.burst_credits: -1: input"),
        ("[volumes.data]", "[volumes]\nx = 1\n[volumes.data]", "volumes.x: must be a table"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(LayoutError) as raised:
        parse_layout(GOOD.replace(old, new, 1), "layout.toml")
    text = str(raised.value)
    assert text.startswith("layout.toml: ")
    assert says.lower() in text.lower()
    assert "\n" not in text
    assert raised.value.exit_code == 2


def test_several_mistakes_are_counted() -> None:
    text = GOOD.replace("iops = 6000", "iosp = 6000").replace('"500GiB"', "500")
    with pytest.raises(LayoutError, match=r"iosp.*\(1 more mistake in the file\)"):
        parse_layout(text, "layout.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "volumes: is missing"),
        ('[volumes]\n[postgres]\ndata = "x"', "volumes: has none"),
        ("a = 1\na = 2", "overwrite"),
        ("\x00", "line 1, column 1"),
    ],
)
def test_files_that_are_no_layout(text: str, says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        parse_layout(text, "layout.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_layout(tmp_path / "none.toml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_layout(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"[host]\n\xff")
    with pytest.raises(LayoutError, match="not UTF-8 text"):
        read_layout(binary)


def test_the_file_is_named_in_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("iops = 6000", "iosp = 6000"))
    with pytest.raises(LayoutError, match=r"mine\.toml: volumes\.data\.iosp"):
        read_layout(path)
    path.write_text(GOOD)
    assert read_layout(path) == parse_layout(GOOD, "")


# the law: what is written reads back ---------------------------------------------------------

# PostgreSQL's identifiers hold any character but NUL, and are valid in the server's encoding
identifiers = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)
plain = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True)
values = st.one_of(
    identifiers,
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["1.10", "-0", "007", "1e3", "on", "", "4GB", "0.0", "-0.0"]),
)
pairs = st.dictionaries(identifiers, values, max_size=4).map(lambda found: tuple(found.items()))
relations = st.builds(RelationId, identifiers, identifiers, identifiers)
positive = st.one_of(
    st.integers(1, 10**6).map(float), st.floats(0.001, 1e12, allow_nan=False, exclude_min=True)
)


fractions = st.none() | st.floats(0, 1)
tails = st.tuples(st.floats(0.01, 1e6), st.floats(1, 50)).map(lambda one: (one[0], one[0] * one[1]))
latencies = st.none() | st.one_of(
    tails.map(lambda one: MeasuredLatency(*one)),
    tails.map(lambda one: MeasuredLatency(None, None, *one)),
    st.tuples(tails, tails).map(lambda both: MeasuredLatency(*both[0], *both[1])),
)
snapshots: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, from_snapshot=st.booleans()),
    st.just({"from_snapshot": True, "fast_snapshot_restore": True}),
    st.builds(dict, from_snapshot=st.just(True), initialization_rate=positive),
)
sizes = st.one_of(st.integers(1, 2**50), st.integers(1, 2**20).map(lambda number: number * GIB))


locations = identifiers.map(lambda one: "/" + re.sub(r"['\n\r\0]", "_", one))


def _is_tablespace_name(name: str) -> bool:
    return not name.startswith("pg_") and len(name.encode()) <= 63 and "\0" not in name


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    names = draw(st.lists(plain, min_size=1, max_size=4, unique=True))
    volumes = tuple(
        Volume(
            name=name,
            type=draw(identifiers),
            size_bytes=Bytes(draw(sizes)),
            mount=f"/mnt/{number}{draw(st.text(max_size=3).filter(_is_in_a_path))}",
            iops=draw(st.none() | positive),  # type: ignore[arg-type]
            throughput=draw(st.none() | positive),  # type: ignore[arg-type]
            stripes=draw(st.integers(1, 128)),
            chunk_bytes=Bytes(draw(st.sampled_from([4096, 65536, 1048577]))),
            filesystem=draw(st.sampled_from(["xfs", "ext4", "btrfs"])),
            mkfs_options=tuple(draw(st.lists(identifiers, max_size=2))),
            mount_options=tuple(draw(st.lists(identifiers, max_size=2))),
            burst_credits=draw(fractions),
            latency=draw(latencies),
            **draw(snapshots),
        )
        for number, name in enumerate(names)
    )
    spaces = draw(st.lists(identifiers.filter(_is_tablespace_name), max_size=3, unique=True))
    moved = draw(st.lists(relations, max_size=6, unique=True))
    some: Any = st.sampled_from(names)
    return Layout(
        host=HostSpec(
            draw(st.sampled_from(["ec2", "rds", "gce", "azure", "local"])),
            draw(st.none() | identifiers),
            draw(st.none() | identifiers),
            draw(fractions),
        ),
        volumes=volumes,
        postgres=Placement(
            draw(some), draw(some), tuple(draw(st.lists(some, max_size=2))), draw(pairs)
        ),
        tablespaces=tuple(
            Tablespace(
                name=name,
                volume=draw(some),
                relations=tuple(moved[number :: len(spaces)]),
                options=draw(pairs),
                location=draw(st.none() | locations),
            )
            for number, name in enumerate(spaces)
        ),
    )


def _encodable(text: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" or one == "\0" for one in text)


def _is_in_a_path(text: str) -> bool:
    return _encodable(text) and text != "/.."  # it would make two mounts one


_HOSTILE = (
    'quote " and "" twice',
    "line\nfeed\r\nand return",
    "<script>alert(1)</script>",
    "$(rm -rf /); `id` | & > < ' \\",
    "[bold]markup[/]",
    "tab\tbell\x07delete\x7fescape\x1b[31m",
    "a.b.c",
    "= # ''' \"\"\" { } [ ]",
    "😀 \u202e é",
)


@settings(max_examples=150, deadline=None)
@given(layouts())
@example(
    Layout(
        HostSpec(),
        (Volume("data", "local-ssd", Bytes(GIB), "/mnt/data"),),
        Placement("data", "data", settings=tuple((name, name) for name in _HOSTILE)),
        (
            Tablespace(
                _HOSTILE[0],
                "data",
                tuple(RelationId(name, name, name) for name in _HOSTILE),
                tuple((name, name) for name in _HOSTILE),
                "/mnt/" + _HOSTILE[3].replace("'", ""),
            ),
        ),
    )
)
def test_what_is_written_reads_back(layout: Layout) -> None:
    text = format_layout(layout)
    assert parse_layout(text, "layout.toml") == layout
    assert format_layout(parse_layout(text, "layout.toml")) == text


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("x" * 64, "has 64 bytes, and PostgreSQL cuts names at 63"),
        ("ü" * 32, "has 64 bytes"),
        ("pg_fast", "is reserved"),
        ("a\\u0000b", r"U\+0000"),
    ],
)
def test_a_tablespace_name_the_server_would_cut_is_refused(name: str, rule: str) -> None:
    text = f'{MINIMAL_TABLES}[tablespaces."{name}"]\nvolume = "data"\n'
    with pytest.raises(LayoutError, match=rule):
        parse_layout(text, "layout.toml")
    fits = f'{MINIMAL_TABLES}[tablespaces."{"ü" * 31}x"]\nvolume = "data"\n'
    assert len(parse_layout(fits, "layout.toml").tablespaces[0].name.encode()) == 63


@pytest.mark.parametrize(
    ("location", "rule"),
    [
        ("fast/hot", "not an absolute path"),
        ("/mnt/it's", "a quote"),
        ("/mnt/a\\nb", "a quote, a line's end"),
        ("/mnt/a\\u0000b", r"U\+0000"),
        ("/mnt/" + "x" * 1000, "too long"),
    ],
)
def test_a_location_the_server_would_refuse_is_refused(location: str, rule: str) -> None:
    space = f'[tablespaces.fast]\nvolume = "data"\nlocation = "{location}"\n'
    with pytest.raises(LayoutError, match=rule) as error:
        parse_layout(MINIMAL_TABLES + space, "layout.toml")
    assert "tablespaces.fast.location" in str(error.value)


MINIMAL_TABLES = """
[volumes.data]
type = "gp3"
size = "10GiB"
mount = "/mnt/data"
[postgres]
data = "data"
"""


LATENCY = "latency = { read_us_p50 = 640, read_us_p99 = 1300.5 }"


def with_latency(text: str) -> str:
    return GOOD.replace('mount = "/mnt/pgdata"', f'mount = "/mnt/pgdata"\n{text}', 1)


def test_a_measured_latency_reaches_the_device_model() -> None:
    layout = parse_layout(with_latency(LATENCY), "layout.toml")
    volume = layout.volume("data")
    device = load().device(volume, layout.host).member
    of_type = load().device(replace(volume, latency=None), layout.host)
    assert (device.latency.read_us_p50, device.latency.read_us_p99) == (640, 1300.5)
    assert device.latency.write_us_p50 == of_type.member.latency.write_us_p50
    assert device.latency.read_us_per_mib == of_type.member.latency.read_us_per_mib
    disk = replace(volume, type="st1", iops=None, throughput=None)
    assert load().device(disk, layout.host).member.mechanics is None


def test_a_latency_is_read_from_what_fio_wrote(tmp_path: Path) -> None:
    def job(reads: int, ns: float) -> dict[str, Any]:
        clat = {"percentile": {"50.000000": ns, "99.000000": 2 * ns}}
        idle: dict[str, Any] = {"total_ios": 0, "clat_ns": {}}
        return {"read": {"total_ios": reads, "clat_ns": clat}, "write": idle}

    (tmp_path / "fio.json").write_text(json.dumps({"jobs": [job(5, 1.0), job(50, 640_000.0)]}))
    path = tmp_path / "layout.toml"
    path.write_text(with_latency('latency = { fio = "fio.json" }'))
    volume = read_layout(path).volume("data")
    assert volume.latency == MeasuredLatency(640.0, 1280.0)
    (tmp_path / "fio.json").write_text("[]")
    with pytest.raises(LayoutError, match="is not what fio writes as JSON"):
        read_layout(path)
    path.write_text(with_latency('latency = { fio = "gone.json" }'))
    with pytest.raises(LayoutError, match=r"gone\.json cannot be read"):
        read_layout(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('latency = "0.6ms"', "cannot be read"),
        ("latency = {}", "latency is empty"),
        ("latency = { read_us_p50 = 5 }", "write both, or neither"),
        ("latency = { read_us_p50 = 5, read_us_p99 = 4 }", "cannot be"),
        ("latency = { read_us_p50 = 0, read_us_p99 = 4 }", "cannot be"),
        ("latency = { read_us_p50 = nan, read_us_p99 = nan }", "cannot be"),
        ("latency = { read_us_p50 = true, read_us_p99 = 4 }", "a number of microseconds"),
        ("latency = { p50 = 5 }", "has no 'p50'"),
        ("latency = 5", "is a table"),
    ],
)
def test_a_latency_that_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises(LayoutError) as raised:
        parse_layout(with_latency(text), "layout.toml")
    line = f"{raised.value.message}; {raised.value.remedy}"
    assert words in line
    assert "volumes.data.latency" in line
    assert "\n" not in line


def test_volumes_need_no_postgresql(tmp_path: Path) -> None:
    path = tmp_path / "layout.toml"
    path.write_text(GOOD[: GOOD.index("[postgres]")])
    layout = read_volumes(path)
    assert [volume.name for volume in layout.volumes] == ["data", "wal"]
    assert layout.postgres == Placement("data", "data")
    with pytest.raises(LayoutError, match="postgres: is missing"):
        read_layout(path)
    path.write_text("")
    with pytest.raises(LayoutError, match="volumes: is missing"):
        read_volumes(path)
