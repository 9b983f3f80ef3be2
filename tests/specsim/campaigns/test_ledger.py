"""The ledger of a campaign: each unit once, whole lines, and one campaign a folder."""

import pytest

from specsim.campaigns.ledger import CASES, UNITS, Ledger, Row, campaign_in
from specsim.campaigns.units import Broken, Kind, Outcome, Unit
from specsim.rejection import Reason, SpecRejection

DESCRIBED = {"implementation": "mine", "seeds": {"first": 0, "last": 9}}
UNIT = Unit(Kind.PROPERTY, "agreement.build_tree", (0, 1))
OUTCOME = Outcome(1.5, 1.25, 80, {"tree": 3}, (Broken("wrong", 1, weight=4),))
ROW = Row(UNIT.id, UNIT, "here/1", 2.0, 1, OUTCOME)


def test_a_unit_is_named_by_what_it_is():
    assert UNIT.id == Unit(Kind.PROPERTY, "agreement.build_tree", (0, 1)).id
    others = [
        Unit(Kind.CELL, UNIT.name, (0, 1)),
        Unit(UNIT.kind, UNIT.name, (0,)),
        Unit(UNIT.kind, UNIT.name, (0, 1), 1),
    ]
    assert len({UNIT.id, *(other.id for other in others)}) == 4


def test_rows_are_read_as_they_were_written(tmp_path):
    with Ledger(tmp_path, DESCRIBED) as ledger:
        assert ledger.add(ROW)
    with Ledger(tmp_path, DESCRIBED) as ledger:
        assert (ledger.rows, ledger.clock) == ({UNIT.id: ROW}, 2.0)
    assert campaign_in(tmp_path) == {"schema": "specsim.campaign/1", **DESCRIBED}


def test_a_unit_is_written_once(tmp_path):
    with Ledger(tmp_path, DESCRIBED) as ledger:
        assert [ledger.add(ROW), ledger.add(ROW)] == [True, False]
    assert len((tmp_path / UNITS).read_text().splitlines()) == 1


def test_a_line_that_a_killed_process_began_is_cut_off(tmp_path):
    with Ledger(tmp_path, DESCRIBED) as ledger:
        ledger.add(ROW)
    whole = (tmp_path / UNITS).read_bytes()
    (tmp_path / UNITS).write_bytes(whole + whole[:40])
    with Ledger(tmp_path, DESCRIBED) as ledger:
        assert list(ledger.rows) == [UNIT.id]
    assert (tmp_path / UNITS).read_bytes() == whole


def test_another_campaign_is_refused(tmp_path):
    with Ledger(tmp_path, DESCRIBED) as ledger:
        ledger.add(ROW)
    with pytest.raises(SpecRejection) as caught:
        Ledger(tmp_path, {**DESCRIBED, "implementation": "theirs"})
    assert str(caught.value) == (
        "BAD_CONFIGURATION: implementation of the campaign is theirs, but should be mine, "
        f"because {tmp_path / 'campaign.json'} says so, and a campaign is resumed as it began"
    )


def test_a_campaign_that_came_to_nothing_makes_room(tmp_path):
    for described in (DESCRIBED, {**DESCRIBED, "implementation": "theirs"}):
        with Ledger(tmp_path, described) as ledger:
            assert ledger.rows == {}
    assert campaign_in(tmp_path)["implementation"] == "theirs"


def test_a_campaign_that_runs_is_refused(tmp_path):
    with Ledger(tmp_path, DESCRIBED), pytest.raises(SpecRejection) as caught:
        Ledger(tmp_path, DESCRIBED)
    assert str(caught.value) == (
        f"BAD_CONFIGURATION: {tmp_path} is in use, but should be free, "
        "because another process runs it, and two that write one ledger would count units twice"
    )


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / UNITS).write_text('{"id": 7}\n')
    with pytest.raises(SpecRejection) as caught:
        Ledger(tmp_path, DESCRIBED)
    assert caught.value.reason is Reason.BAD_CASE_FILE


def test_a_case_is_whole_or_absent(tmp_path):
    with Ledger(tmp_path, DESCRIBED) as ledger:
        ledger.keep_case({"one.json": b"{}"})
    assert [path.name for path in (tmp_path / CASES).iterdir()] == ["one.json"]
