"""The nine experiments that come along: each can be made, and is what its study asks for."""

import re
from pathlib import Path

import pytest

from pgstow.catalog import load
from pgstow.experiment.design import length_s
from pgstow.experiment_file import (
    experiment_names,
    find_experiment,
    parse_experiment,
    read_experiment,
)
from pgstow.studies_file import study_names
from pgstow.units import KIB, MIB

ROOT = Path(__file__).parents[2]
STUDIES = (
    "dedicated-log-volume",
    "filesystem",
    "gp3-iops",
    "indexes-on-fast",
    "io2",
    "placement",
    "striping",
    "volume-types",
    "wal-split",
)


def test_the_nine_studies_have_an_experiment_each() -> None:
    assert experiment_names() == STUDIES == study_names()
    assert {path.stem for path in (ROOT / "experiments").glob("*.toml")} == set(STUDIES)


@pytest.mark.parametrize("profile", ["quick", "full", "ci"])
@pytest.mark.parametrize("name", STUDIES)
def test_each_can_be_made_and_bought(name: str, profile: str) -> None:
    experiment = read_experiment(name, profile)
    assert (experiment.name, experiment.study, experiment.profile) == (name, name, profile)
    for treatment in experiment.treatments:
        assert treatment.layout is not None
        for volume in treatment.layout.volumes:
            assert load().device(volume, treatment.layout.host).stripes == volume.stripes
        price = load().layout_price(treatment.layout).usd_month
        assert price is not None


@pytest.mark.parametrize("name", STUDIES)
def test_quick_takes_five_minutes_and_shows_something(name: str) -> None:
    quick, ci = read_experiment(name, "quick"), read_experiment(name, "ci")
    assert length_s(quick) <= 300
    assert quick.blocks >= 3  # fewer show nothing
    assert len(quick.treatments) >= 2
    assert length_s(ci) <= 40


@pytest.mark.parametrize("name", STUDIES)
def test_data_do_not_fit_into_a_memory_that_is_limited(name: str) -> None:
    for profile in ("quick", "full"):
        for treatment in read_experiment(name, profile).treatments:
            memory = treatment.server.memory_bytes
            if memory is None or treatment.data.maker != "pgbench":
                continue
            data_bytes = treatment.data.scale * 15 * MIB
            if name == "volume-types":  # whose data are but a fifth larger, beside the backends
                assert data_bytes > 0.7 * memory
            else:
                assert data_bytes > 2.3 * memory


def test_scripts_are_beside_the_file_that_names_them() -> None:
    for name in STUDIES:
        for treatment in read_experiment(name, "full").treatments:
            script = treatment.workload.name.partition("script:")[2]
            assert not script or (find_experiment(name).parent / script).is_file()
    assert read_experiment("io2").treatments[0].workload.name.startswith("script:")


def test_striping_has_the_documents_cap_at_a_tenth() -> None:
    experiment = read_experiment("striping", "full")
    by_name = {treatment.name: treatment for treatment in experiment.treatments}
    small = by_name["query key, instance small, chunk 64KiB, stripes 16"].layout
    assert small is not None
    cap = load().host_cap(small.host).iops
    member = load().device(small.volume("data"), small.host).member.iops
    assert cap is not None
    assert member is not None
    assert cap / member == pytest.approx(20000 / 3000, rel=0.01)
    assert small.volume("data").chunk_bytes == 64 * KIB
    large = by_name["query key, instance large, chunk 8KiB, stripes 16"].layout
    assert large is not None
    assert (load().host_cap(large.host).iops or 0) > 16 * member


def test_the_reference_page_shows_experiments_that_can_be_read() -> None:
    page = (ROOT / "docs/reference/experiment.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    whole = [block for block in blocks if block.startswith("name = ")]
    assert len(whole) >= 2
    for block in whole:
        parse_experiment(block, "docs/reference/experiment.md")
