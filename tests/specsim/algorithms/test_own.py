"""What a module brings as ``DRAFTERS`` is read as records, or refused in words that name the entry."""

import pytest

from specsim.algorithms import Drafter, own_drafters
from specsim.algorithms.own import BadDrafters


class Side:
    pass


def test_a_side_is_one_for_the_layer_of_the_arrays():
    assert own_drafters({"mine": Side}, "numpy") == {"mine": Drafter(name="mine", sides={"reference": Side})}
    assert own_drafters({"mine": "package.Side"}, "torch")["mine"].sides == {"gpu": "package.Side"}
    both = {"reference": Side, "gpu": "package.Side"}
    for arrays in ("numpy", "torch"):
        assert own_drafters({"mine": both}, arrays)["mine"].sides == both
    record = own_drafters({"mine": Drafter(sides=both, reads_texts=True)}, "numpy")["mine"]
    assert (record.name, record.reads_texts, record.worker_name(is_v1=True)) == ("mine", True, "mine_v1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([Side], "DRAFTERS is "),
        ({"Mine": Side}, "should have a lower-case identifier"),
        ({"my-own": Side}, "should have a lower-case identifier"),
        ({"eagle": Side}, "a name of specsim's own"),
        ({"multi_layer": Side}, "a name of specsim's own"),
        ({"mine": {"cpu": Side}}, "has a side for 'cpu', but should have sides for reference or gpu"),
        ({"mine": 3}, "is 3 for reference, but should be a class or its name"),
        ({"mine": {"gpu": Side}}, "has no side for reference, but should have one"),
        ({"mine": Drafter(sides={"reference": Side}, draft_source="LAYERS")}, "drafts from LAYERS"),
        ({"mine": Drafter(sides={"reference": Side}, parameters="package.Parameters")}, "should have none"),
    ],
)
def test_what_cannot_run_is_refused_by_its_entry(given, words):
    with pytest.raises(BadDrafters, match=r"^DRAFTERS") as refused:
        own_drafters(given, "numpy")
    assert words in str(refused.value)
