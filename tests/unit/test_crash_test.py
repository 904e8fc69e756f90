"""The pure parts of the crash test: the ledger's audit, the plan and the verdict."""

from dataclasses import replace

import pytest

from pgstow.emulate.control import Lost
from pgstow.emulate.crash_test import Combination, Cut, Findings, make_plan
from pgstow.emulate.crash_test.check import read_log
from pgstow.emulate.crash_test.ledger import ACCOUNTS, Ledger, transfer
from pgstow.emulate.crash_test.result import judge, summarise
from pgstow.model.errors import UserError

SEED = 5
EVERYTHING = {
    "filesystems": ["xfs", "ext4"],
    "wal": ["apart", "together"],
    "losses": ["all", "subset", "reorder", "torn"],
}


def ledger(acknowledged: int = 4, in_doubt: int = 2, refused: int = 1) -> Ledger:
    """A ledger of one client with so many transfers of each fate."""
    made = Ledger.of(SEED, 1)
    record = made.clients[0]
    record.acknowledged = [record.next_number() for _ in range(acknowledged)]
    record.in_doubt = [record.next_number() for _ in range(in_doubt)]
    record.refused = [record.next_number() for _ in range(refused)]
    return made


def test_a_transfer_moves_something_between_two_accounts_and_is_told_by_its_checksum() -> None:
    transfers = [transfer(SEED, number) for number in range(300)]
    assert all(entry.source != entry.target and entry.amount > 0 for entry in transfers)
    assert all(0 <= entry.source < ACCOUNTS and 0 <= entry.target < ACCOUNTS for entry in transfers)
    assert len({entry.checksum for entry in transfers}) == 300
    assert any(len(entry.note) > 4000 for entry in transfers)  # some are stored out of line


def test_numbers_of_clients_never_meet() -> None:
    made = Ledger.of(SEED, 3)
    numbers = [record.next_number() for record in made.clients for _ in range(50)]
    assert len(set(numbers)) == 150


def test_what_was_acknowledged_must_be_there_and_what_is_in_doubt_may() -> None:
    made = ledger()
    record = made.clients[0]
    landed = record.in_doubt[0]
    rows = [transfer(SEED, number).row for number in [*record.acknowledged, landed]]
    audit = made.audit(rows)
    assert audit.is_clean
    assert (audit.checked, audit.landed, audit.vanished) == (4, 1, 1)
    # What was seen must stay, what was absent must not come back.
    later = made.audit([row for row in rows if row[0] != landed])
    assert later.lost == (landed,)
    back = made.audit([*rows, transfer(SEED, record.refused[-1]).row])
    assert back.phantom == (record.refused[-1],)


def test_every_kind_of_damage_is_told_apart() -> None:
    made = ledger()
    record = made.clients[0]
    first, second, third, fourth = (transfer(SEED, number).row for number in record.acknowledged)
    torn = (*second[:3], second[3] + 1, *second[4:])
    rolled_back = transfer(SEED, record.refused[0]).row
    never_sent = transfer(SEED, 7).row
    audit = made.audit([first, first, torn, third, rolled_back, never_sent])
    assert audit.lost == (fourth[0],)
    assert audit.damaged == (second[0],)
    assert audit.repeated == (first[0],)
    assert set(audit.phantom) == {rolled_back[0], 7}
    assert not audit.is_clean


def test_the_summary_is_of_the_last_acknowledged_filling_or_one_in_doubt() -> None:
    made = ledger()
    made.generation_acknowledged, made.generation_sent = 3, 4
    assert made.wrong_generation([(4, 10, True)]) is None
    assert made.generation_acknowledged == 4
    assert "not 4 to 4" in str(made.wrong_generation([(3, 10, True)]))
    assert "torn" in str(made.wrong_generation([(3, 1, True), (4, 1, True)]))
    assert made.wrong_generation([]) is not None


def test_a_plan_shares_the_cuts_over_every_combination() -> None:
    plan = make_plan(**EVERYTHING, cuts=200, seed=1)
    assert len(plan.combinations) == 2 * 2 * 5
    assert plan.cuts == 200
    assert [len(group) for group in plan.groups] == [5, 5, 5, 5]
    assert make_plan(**EVERYTHING, cuts=200, seed=1, quick=True).cuts == 20
    with pytest.raises(UserError, match="'btrfs' is not one; choose from xfs, ext4"):
        make_plan(**(EVERYTHING | {"filesystems": ["btrfs"]}), cuts=1, seed=1)
    with pytest.raises(UserError, match="none is named"):
        make_plan(**(EVERYTHING | {"losses": []}), cuts=1, seed=1)
    with pytest.raises(UserError, match="at least 1"):
        make_plan(**EVERYTHING, cuts=0, seed=1)


XFS = Combination("xfs", "apart", "all")


def cut(*, at_risk: int = 3, is_control: bool = False, findings: Findings | None = None) -> Cut:
    """A cut that lost what was at risk."""
    volume = Lost("data", at_risk, 8192 * at_risk, at_risk, 8192 * at_risk)
    return Cut(1, XFS, "any", is_control, 10, 1, (volume,), findings or Findings(), 0.1, 0.5, 3.0)


CONTROL = cut(is_control=True, findings=Findings(lost=9))


def test_the_verdict_needs_clean_cuts_that_count_and_a_control_that_loses() -> None:
    plan = make_plan(filesystems=["xfs"], wal=["apart"], losses=["all"], cuts=2, seed=1)
    assert judge(plan, [cut(), cut(), CONTROL]) == ()
    assert "only 1 of 2" in judge(plan, [cut(), cut(at_risk=0), CONTROL])[0]
    assert "nothing is proved" in judge(plan, [cut(), cut(), cut(is_control=True)])[0]
    assert "nothing is proved" in judge(plan, [cut(), cut()])[0]
    lost = cut(findings=Findings(lost=2))
    assert "2 acknowledged transfers were lost" in judge(plan, [cut(), lost, CONTROL])[0]
    for wrong in (Findings(amcheck=("x",)), Findings(other=("torn page",))):
        assert len(judge(plan, [cut(), cut(findings=wrong), CONTROL])) == 1


def test_a_row_counts_only_cuts_with_something_to_lose() -> None:
    (row,) = summarise([cut(), cut(at_risk=9), cut(at_risk=0), CONTROL])
    assert (row.cuts, row.counted, row.lost_writes) == (3, 2, 12)
    assert (row.unflushed_writes_median, row.unflushed_writes_max) == (6, 9)
    assert row.is_clean
    assert not replace(row, amcheck_problems=1).is_clean


VERIFICATION = "[9] LOG:  page verification failed, calculated checksum 45996 but expected 11189"


def invalid(level: str, file: str) -> str:
    """A server's line about a page that it cannot take."""
    return f'[9] {level}:  invalid page in block 2 of relation "base/5/{file}"; zeroing out page'


def test_torn_pages_are_damage_but_for_those_of_free_space_maps() -> None:
    torn_map = [VERIFICATION, invalid("LOG", "16395_fsm"), invalid("WARNING", "16395_fsm")]
    assert read_log([]).problems == ()
    found = read_log([*torn_map, "[9] LOG:  redo done at 0/3F05810", *torn_map])
    assert (found.zeroed_maps, found.problems) == (2, ())
    assert read_log([*torn_map, VERIFICATION]).problems != ()
    for damage in (invalid("ERROR", "16395"), invalid("LOG", "16395_vm"), "[9] PANIC:  no"):
        assert read_log([*torn_map, damage]).problems == (damage,)
