"""What starting a server and limiting memory work out without doing it."""

import pytest

from pgstow.host.memory_limit import MemoryLimit, parse_cgroup_mounts
from pgstow.host.server import format_settings

HYBRID = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
"""


def test_of_both_versions_the_first_has_the_memory_controller() -> None:
    assert parse_cgroup_mounts(HYBRID) == ("/sys/fs/cgroup/memory", 1)


def test_without_control_groups_there_is_none() -> None:
    assert parse_cgroup_mounts("proc /proc proc rw 0 0\n") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_groups_name_is_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="memory control group"):
        MemoryLimit.create(name, 1024)


def test_settings_are_quoted_as_postgresql_reads_them() -> None:
    text = format_settings({"archive_command": r"cp '%p' \\nas\x", "work_mem": "4MB"})
    assert text == "archive_command = 'cp ''%p'' \\\\\\\\nas\\\\x'\nwork_mem = '4MB'\n"


@pytest.mark.parametrize(("name", "value"), [("a b", "1"), ("work_mem", "1\nfsync = off")])
def test_a_setting_cannot_smuggle_in_another(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="not a setting"):
        format_settings({name: value})
