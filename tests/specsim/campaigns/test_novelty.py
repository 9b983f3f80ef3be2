"""Which unit is next: every arm once, then who has had least of its share, and more for what is new."""

from collections import Counter

from specsim.campaigns.novelty import Chooser
from specsim.campaigns.plan import Arm, Seeds
from specsim.campaigns.units import Broken, Kind, Outcome

ENDLESS = Seeds(5)


def arms(*names, kind=Kind.PROPERTY, seeds=ENDLESS):
    return [Arm(kind, name, seeds) for name in names]


def run(chooser, number, outcome_of):
    units = []
    for _ in range(number):
        unit = chooser.next()
        if unit is None:
            break
        units.append(unit)
        chooser.take(unit, outcome_of(unit))
    return units


def test_every_arm_runs_once_before_any_runs_twice():
    units = run(Chooser(arms("a", "b", "c")), 6, lambda unit: Outcome(1.0))
    assert [unit.name for unit in units] == ["a", "b", "c", "a", "b", "c"]
    assert [unit.seeds for unit in units] == [(5,), (5,), (5,), (6,), (6,), (6,)]


def test_an_arm_that_finds_new_tags_gets_more_time():
    chooser = Chooser(arms("dull", "fertile"))
    units = run(
        chooser, 90, lambda unit: Outcome(1.0, reach={f"{unit.seeds}": 1} if unit.name == "fertile" else {"same": 1})
    )
    counts = Counter(unit.name for unit in units)
    assert counts["fertile"] > 5 * counts["dull"]
    assert chooser.num_finds == counts["fertile"] + 1


def test_a_failure_is_new_once_whatever_its_numbers_are():
    chooser = Chooser(arms("a"))
    run(chooser, 5, lambda unit: Outcome(1.0, failures=(Broken(f"row {unit.seeds[0]} is 7", unit.seeds[0]),)))
    assert chooser.num_finds == 1


def test_kinds_have_equal_time_however_many_arms_they_have():
    chooser = Chooser([*arms("a", "b", "c", "d"), *arms("", kind=Kind.MACHINE)])
    units = run(chooser, 100, lambda unit: Outcome(1.0))
    assert 48 <= Counter(unit.kind for unit in units)[Kind.MACHINE] <= 52


def test_a_long_unit_is_paid_for():
    units = run(Chooser(arms("long", "short")), 44, lambda unit: Outcome(10.0 if unit.name == "long" else 1.0))
    counts = Counter(unit.name for unit in units)
    assert counts["short"] >= 9 * (counts["long"] - 1)


def test_the_same_outcomes_make_the_same_choices():
    def choices():
        return run(Chooser(arms("a", "b", "c")), 40, lambda unit: Outcome(0.1 + unit.seeds[0] % 3, reach={"x": 1}))

    assert choices() == choices()


def test_what_an_earlier_session_ran_is_not_given_out():
    seeds = Seeds(0, 4)
    first = run(Chooser(arms("a", "b", seeds=seeds)), 4, lambda unit: Outcome(1.0))
    again = Chooser(arms("a", "b", seeds=seeds))
    for unit in first:
        again.take(unit, Outcome(1.0))
    rest = run(again, 99, lambda unit: Outcome(1.0))
    assert len({unit.id for unit in (*first, *rest)}) == len(first) + len(rest) == again.num_units == 10


def test_units_share_the_seeds_of_their_arm():
    quick = Arm(Kind.PROPERTY, "a", Seeds(0, 5), seeds_of_a_unit=4)
    assert [quick.unit(place) and quick.unit(place).seeds for place in range(3)] == [(0, 1, 2, 3), (4, 5), None]
    machines = Arm(Kind.MACHINE, "", Seeds(7, 8), units_of_a_seed=2)
    found = [machines.unit(place) for place in range(4)]
    assert [(unit.seeds, unit.number) for unit in found] == [((7,), 0), ((7,), 1), ((8,), 0), ((8,), 1)]
    assert (quick.num_units(), machines.num_units(), machines.unit(4)) == (2, 4, None)


def test_a_law_is_one_unit():
    law = Arm(Kind.LAW, "cell", ENDLESS)
    assert (law.num_units(), law.unit(0).seeds, law.unit(1)) == (1, (5,), None)
