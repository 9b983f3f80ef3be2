"""Cases for interpreted kernels are smaller, and find the same mutants."""

from pathlib import Path

from specsim.conformance.backend import load
from specsim.properties.mutants import all_mutants
from specsim.properties.operations.acceptance.strategy import SMALL_TREES
from specsim.properties.property import Property
from specsim.properties.strategies.scale import drawing_for_interpreter, draws_for_interpreter
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.properties.suite.hunt.hunt import Hunt, Options
from specsim.properties.suite.hunt.kills import read_kills

KILLS = Path(__file__).parents[1] / "mutants" / "kills.json"
OPERATIONS = {"verify_tree_greedy_from_logits", "verify_tree_sampled_from_logits"}
SEEDS = range(3)
"""The second and the third are for what the first misses: what it draws depends on the modules that are loaded."""

SUITE = [one for one in all_properties() if OPERATIONS & set(one.operations) and not one.is_slow]


def shapes_of(name):
    one = next(one for one in SUITE if one.name == f"agreement.{name}")
    return [case["candidates"].shape for case in draw_cases(one, 0, 30)]


def test_cases_for_an_interpreter_are_few_requests_of_small_trees():
    for name in OPERATIONS:
        with drawing_for_interpreter():
            small = shapes_of(name)
        usual = shapes_of(name)
        assert max(count for count, _ in small) == 2 < max(count for count, _ in usual)
        assert sum(count == 2 for count, _ in small) >= 3, "a batch of one hides who reads another's rows"
        assert sum(width <= SMALL_TREES for _, width in small) >= 28


def test_small_cases_find_every_mutant():
    mutants = [mutant for mutant in all_mutants() if mutant.operation in OPERATIONS]
    hunt = Hunt(mutants, SUITE, Options(40, False, read_kills(KILLS).killers))
    with drawing_for_interpreter():
        survivors = [mutant.id for mutant in mutants if not any(hunt.kills_of(mutant.id, seed) for seed in SEEDS)]
    assert mutants
    assert not survivors


def test_a_run_on_numpy_draws_cases_of_all_sizes():
    reported = []

    def law(backend, case):
        reported.append(draws_for_interpreter())

    (one, *_) = SUITE
    run_property(Property("scale.reported", "", one.operations, one.strategy, law), load("specsim.reference"), 0, 2)
    assert reported == [False, False]
    with drawing_for_interpreter():
        assert draws_for_interpreter()
    assert not draws_for_interpreter()
