"""Targets name what there is, once, and say why the rest is open."""

import pytest

from specsim.properties.catalogue import all_properties
from specsim.properties.targets.catalogue import NUMBERS, all_covered, all_targets, in_order, kinds_of_laws
from specsim.properties.targets.target import GRAPHS, Target, covered

PROPERTIES = all_properties()
LAW = "verify.larger_trees_accept_no_less"


def test_every_number_is_there_once_and_in_order():
    assert tuple(target.number for target in all_targets()) == NUMBERS
    assert (len(NUMBERS), NUMBERS[0], NUMBERS[-1]) == (62 + 30 + 12 + 1, "P01", "E.4")
    assert "P11" not in NUMBERS


def test_a_law_states_the_target_of_its_number():
    stating = {one.target.number: one.properties for one in all_covered()}
    lost = [one.name for one in PROPERTIES if one.catalogue and one.name not in stating[one.catalogue]]
    assert not lost
    assert kinds_of_laws()["P23"] == "a larger tree accepts no less"
    assert "P61" not in kinds_of_laws()


def test_names_of_a_number_come_first_and_a_group_stays_one_name():
    target = Target("P23", "…", properties=("poison.*", "tree.mask_is_the_ancestor_closure"))
    assert covered(target, PROPERTIES).properties == (LAW, "poison.*", "tree.mask_is_the_ancestor_closure")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (Target("M.1", "…", properties=(LAW,)), "stated"),
        (Target("M.1", "…", tests=("test_docs.py::test_links_lead_somewhere",)), "stated"),
        (Target("M.1", "…", properties=(LAW,), open=(("replay", GRAPHS),)), "in part"),
        (Target("M.1", "…", open=(("replay", GRAPHS),)), "open"),
    ],
)
def test_a_target_is_stated_open_or_both(target, status):
    assert covered(target, PROPERTIES).status == status


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target("M.1", "…", properties=("verify.gone",)), "names verify.gone, but should name a property"),
        (Target("M.1", "…", properties=("gone.*",)), r"names gone.\*, but should name a property"),
        (Target("M.1", "…", properties=(LAW, LAW)), f"names {LAW} twice"),
        (Target("P23", "…", properties=(LAW,)), f"names {LAW} twice"),
        (Target("M.1", "…", tests=("test_docs.py::a",) * 2), "names test_docs.py::a twice"),
        (Target("M.1", "…", open=(("replay", "no time"),)), "because of 'no time', but should say one of"),
        (Target("M.1", "…"), "has no property, no test and no reason"),
    ],
    ids=["unknown", "unknown group", "twice", "twice by its number", "a test twice", "another reason", "nothing"],
)
def test_a_target_that_says_something_wrong_is_refused(target, message):
    with pytest.raises(ValueError, match=message):
        covered(target, PROPERTIES)


@pytest.mark.parametrize("number", ["P11", "P01", "M.31"], ids=["no law", "twice", "unknown"])
def test_a_number_too_many_is_refused(number):
    more = Target(number, "…", open=(("all of it", GRAPHS),))
    with pytest.raises(ValueError, match=f"{number} = . targets, but should be ."):
        in_order([*all_targets(), more])


def test_a_number_too_few_is_refused():
    with pytest.raises(ValueError, match="P01 = 0 targets, but should be 1"):
        in_order(all_targets()[1:])
