"""A campaign from its first unit to its last, on an executor of this process: what is lost, counted, found, resumed."""

import json

import pytest

from specsim.campaigns.causes import Causes
from specsim.campaigns.drive import MOST_RUNS, drive
from specsim.campaigns.ledger import CAUSES, UNITS, Ledger, Row
from specsim.campaigns.novelty import Chooser
from specsim.campaigns.plan import Arm, Seeds
from specsim.campaigns.units import Broken, Ended, Kind, LostNode, Outcome

DESCRIBED = {"implementation": "mine"}


class Here:
    """Runs units one after another in this process; ``outcome_of`` says what becomes of each."""

    def __init__(self, outcome_of, places=2):
        self.outcome_of, self.places = outcome_of, places
        self.begun, self.known = [], []

    def num_places(self):
        return self.places

    def submit(self, unit, known):
        self.begun.append(unit)
        self.known.append(known)

    def ended(self, seconds):
        waiting, self.begun = self.begun, []
        return [(unit, self.outcome_of(unit)) for unit in waiting]


def arms(last=9):
    return [Arm(Kind.PROPERTY, name, Seeds(0, last)) for name in ("a", "b")]


def conforming(unit):
    return Ended("here/1", Outcome(0.5, 0.4, 10))


def run(folder, executor, hours=None, last=9, on_look=lambda campaign, seconds: None):
    with Ledger(folder, DESCRIBED) as ledger:
        return drive(Chooser(arms(last)), executor, ledger, Causes(folder, "mine"), hours, on_look)


def ids(folder):
    return [json.loads(line)["id"] for line in (folder / UNITS).read_text().splitlines()]


def test_every_unit_is_reported_once(tmp_path):
    campaign = run(tmp_path, Here(conforming))
    assert (campaign.total.units, campaign.num_units, len(set(ids(tmp_path)))) == (20, 20, 20)
    assert (campaign.total.examples, campaign.because, bool(campaign.causes)) == (200, [], False)


def test_a_unit_whose_node_is_lost_runs_again_and_counts_once(tmp_path):
    lost = []

    def losing_some(unit):
        if unit.seeds == (3,) and lost.count(unit) < 2:
            lost.append(unit)
            return LostNode("its node died")
        return Ended("here/2", Outcome(0.5, 0.5, 1))

    campaign = run(tmp_path, Here(losing_some))
    assert (campaign.total.units, campaign.num_lost, campaign.lost) == (20, 4, {})
    assert len(ids(tmp_path)) == len(set(ids(tmp_path))) == 20


def test_a_unit_that_comes_back_twice_counts_once(tmp_path):
    class Echo(Here):
        def ended(self, seconds):
            found = super().ended(seconds)
            return [*found, *found]

    campaign = run(tmp_path, Echo(conforming))
    assert (campaign.total.units, len(ids(tmp_path))) == (20, 20)


def test_a_unit_that_loses_every_node_is_given_up_with_a_reason(tmp_path):
    campaign = run(tmp_path, Here(lambda unit: LostNode("gone") if unit.name == "b" else conforming(unit)), last=0)
    (unit,) = [one for one in campaign.lost if one.startswith("b ")]
    assert campaign.because == [f"{unit} was not run: lost {MOST_RUNS} times, last: gone"]
    assert campaign.total.units == 1


def test_a_stopped_campaign_goes_on_where_it_was(tmp_path):
    def stop(campaign, seconds):
        if campaign.total.units >= 6:
            raise KeyboardInterrupt

    first = run(tmp_path, Here(conforming), on_look=stop)
    before = ids(tmp_path)
    assert first.is_interrupted and 6 <= len(before) < 20
    executor = Here(conforming)
    second = run(tmp_path, executor)
    assert (second.total.units, second.num_resumed, second.is_interrupted) == (20, len(before), False)
    assert len(set(ids(tmp_path))) == 20


def test_hours_are_those_of_all_sessions(tmp_path):
    unit = arms()[0].unit(0)
    with Ledger(tmp_path, DESCRIBED) as ledger:
        ledger.add(Row(unit.id, unit, "here/1", 3600.0, 1, Outcome(0.5)))
    assert run(tmp_path, Here(conforming), hours=1.0).total.units == 1
    assert run(tmp_path, Here(conforming), hours=2.0).total.units == 20


def test_a_cluster_without_places_ends_the_campaign(tmp_path, monkeypatch):
    monkeypatch.setattr("specsim.campaigns.drive.MOST_IDLE", 0.0)
    campaign = run(tmp_path, Here(conforming, places=0))
    assert campaign.because == ["no node of the cluster has had a place for 0 seconds"]


def test_whole_runs_that_say_the_same_are_one_cause_with_the_shortest_history(tmp_path):
    def failing(unit):
        length = 9 - unit.seeds[0]
        history = tuple(f"{number}. step" for number in range(length))
        message = f"output[{unit.seeds[0]}] = 3, but should be 4"
        raw = "output[N] = N, but should be N"
        return Ended(
            "here", Outcome(failures=(Broken(message, unit.seeds[0], 0, None, length, history, "again", raw),))
        )

    executor = Here(failing)
    with Ledger(tmp_path, DESCRIBED) as ledger:
        machines = [Arm(Kind.MACHINE, "", Seeds(0, 5))]
        campaign = drive(Chooser(machines), executor, ledger, Causes(tmp_path, "mine"), None, lambda *_: None)
    (found,) = campaign.causes.found()
    assert (found.first, found.num_units, found.seed, len(found.history)) == ("machine", 6, 5, 4)
    assert (executor.known[0], executor.known[-1]) == (frozenset(), {"output[N] = N, but should be N"})
    assert json.loads((tmp_path / CAUSES).read_text())[0]["message"] == "output[5] = 3, but should be 4"


@pytest.mark.parametrize("decided", [True, False])
def test_an_arm_that_never_decides_is_named(tmp_path, decided):
    def undecided(unit):
        return Ended("here", Outcome(undecided="" if decided and unit.seeds == (4,) else "too few samples"))

    expected = [] if decided else ["a: too few samples", "b: too few samples"]
    assert run(tmp_path, Here(undecided)).because == expected
