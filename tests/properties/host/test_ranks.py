"""The verdict on decisions of ranks: which one parts them, on which rank and in which round."""

from collections import Counter

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.host.ranks import DECISIONS, broadcast_decision
from specsim.host.sampling import SamplingParameters
from specsim.properties.host.ranks.laws import AGREE, LastBits
from specsim.properties.host.ranks.strategy import AT_LIMIT, Asked, RanksCase, RoundsRun
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.simulation.models.hash_model import HashModel

REFERENCE = load("specsim.reference")
LAW = property_named("ranks.last_bits_of_a_rank_change_no_decision")
SAMPLED = SamplingParameters(temperature=0.8, top_k=2, seed=4)
RUN = RoundsRun(
    model=HashModel(6, 3),
    parents=(-1, 0, 1, 2),
    asked=(Asked((1, 2), 9), Asked((3,), 7, SAMPLED), Asked((3, 5, 1), 8)),
    budget=4,
    times_s=(AT_LIMIT,),
    has_ties=True,
)
CASE = RanksCase(RUN, num_ranks=2, seed=0)
EXAMPLES = 10


def message(broadcast, case=CASE):
    with pytest.raises(AssertionError) as failure:
        LAW.law(REFERENCE.with_function(AGREE, broadcast, "mine"), case)
    return str(failure.value)


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_that_ranks_do_not_agree_on_is_named(decision):
    said = message(lambda what, own, group: own if what == decision else broadcast_decision(what, own, group))
    assert said.startswith(f"{decision} of round ") and " on rank 1 = " in said
    assert said.endswith(", as the first rank decides alone")


def test_an_edit_after_the_broadcast_is_named():
    def cut(what, own, group):
        decided = broadcast_decision(what, own, group)
        return np.minimum(decided, group.rank + 1) if what == "verify lengths" and group.rank else decided

    assert message(cut) == (
        "verify lengths of round 0 on rank 1 = [2, 2, 2], but should be [3, 2, 2], as the first rank decides alone"
    )


def test_what_another_rank_than_the_first_says_is_found_though_all_agree():
    def last(what, own, group):
        values = own.astype(np.int64)
        return group.sum(what, values if group.rank == group.members[-1] else values * 0).astype(own.dtype)

    assert " on rank 0 = " in message(last)


def test_the_first_rank_has_its_own_values_and_others_the_next_ones():
    own = np.array([[-2.0, 0.5], [1.0, -np.inf]], dtype=np.float32)
    np.testing.assert_array_equal(LastBits(0, 3)("logits", own), own)
    other = np.array([LastBits(1, seed)("logits", own) for seed in range(20)])
    assert other.dtype == np.float32
    neighbours = {-np.inf: {-np.inf, np.finfo("f4").min}}
    for place in np.ndindex(own.shape):
        value = own[place]
        near = {value, np.nextafter(value, np.float32(np.inf)), np.nextafter(value, np.float32(-np.inf))}
        assert set(other[:, *place]) == neighbours.get(value, near)


def test_every_decision_hangs_on_last_bits_in_a_fifth_of_the_cases():
    found, cases = Counter(), draw_cases(LAW, 0, EXAMPLES)
    for decision in DECISIONS:
        own = REFERENCE.with_function(
            AGREE,
            lambda what, own, group, one=decision: own if what == one else broadcast_decision(what, own, group),
            "mine",
        )
        for case in cases:
            try:
                LAW.law(own, case)
            except AssertionError:
                found[decision] += 1
    assert all(found[decision] >= EXAMPLES / 5 for decision in DECISIONS), found
