"""Faults as people write them: options, schedules, and mistakes in one line."""

from pathlib import Path

import pytest

from pgstow.emulate import describe_fault, fault_types, parse_fault, read_schedule
from pgstow.emulate.faults import Error, PowerLoss, Slow, Stall
from pgstow.emulate.injection import Planned
from pgstow.model.errors import UserError

SCHEDULE = """
[[faults]]
at = "10s"
for = "5s"
kind = "stall"
volumes = ["data"]

[[faults]]
at = "1min"
kind = "error"
operations = ["read"]
offset = "1GiB"
length = 4096

[[faults]]
kind = "power-loss"
loss = "torn"
"""


def test_a_schedule_says_what_when_and_where(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(SCHEDULE)
    assert read_schedule(file) == (
        Planned(Stall(), ("data",), 10.0, 5.0),
        Planned(Error(operations=("read",), offset=1 << 30, length=4096), None, 60.0, None),
        Planned(PowerLoss(loss="torn"), None, 0.0, None),
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('kind = "stall"', 'kind = "stal"', "faults[0].kind: 'stal' is no fault; use one of: pow"),
        ('kind = "stall"', "", "faults[0].kind: is missing"),
        ('kind = "stall"', 'kind = "slow"', "faults[0].factor: is missing"),
        ('kind = "stall"', 'kind = "stall"\nfactor = 2', "faults[0].factor: stall has no such opt"),
        (
            'at = "10s"',
            "at = 10",
            'faults[0].at: a time is text with its unit; write it like "10s"',
        ),
        ('at = "10s"', 'at = "soon"', "faults[0].at: 'soon' is not a duration"),
        ('["data"]', '"data"', "faults[0].volumes: is no list of names"),
        ('["data"]', "[]", "faults[0].volumes: is no list of names"),
        ('["read"]', '["erase"]', "faults[1].operations: input should be 'read', 'write'"),
        ('"1GiB"', '"1 gig"', "faults[1].offset: '1 gig' is not a size"),
        ('"1GiB"', '"1.5KiB"', None),
        ('"torn"', '"most"', "faults[2].loss: input should be 'all', 'subset'"),
        (SCHEDULE, '[faults]\nkind = "stall"', "is no list of faults"),
        ('kind = "stall"', "kind stall", "correct the TOML"),
        (SCHEDULE, "", "is no list of faults"),
        (SCHEDULE, "faults = [1]", "faults[0]: is no table"),
    ],
)
def test_a_mistake_in_a_schedule_is_one_line(
    tmp_path: Path, old: str, new: str, says: str | None
) -> None:
    assert old in SCHEDULE
    file = tmp_path / "faults.toml"
    file.write_text(SCHEDULE.replace(old, new, 1))
    if says is None:
        assert read_schedule(file)
        return
    with pytest.raises(UserError) as raised:
        read_schedule(file)
    line = str(raised.value)
    assert line.startswith(str(file))
    assert says in line
    assert "\n" not in line
    assert raised.value.exit_code == 2


def test_a_schedule_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"schedule .*none\.toml does not exist"):
        read_schedule(tmp_path / "none.toml")


def test_faults_read_well() -> None:
    assert fault_types() == ("power-loss", "stall", "error", "slow", "disappear", "full")
    assert describe_fault(Stall()) == "stall"
    assert describe_fault(Slow(factor=4)) == "slow, factor 4"
    assert describe_fault(PowerLoss()) == "power-loss, all"
    assert describe_fault(Error()) == "error on read, write"
    assert (
        describe_fault(parse_fault({"kind": "error", "offset": "1MiB", "length": "4KiB"}, ""))
        == "error on read, write from 1MiB to 1028KiB"
    )
