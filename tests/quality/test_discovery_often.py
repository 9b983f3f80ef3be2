"""What a fault needs to show is no matter of luck: the strategies draw it again and again.

Cases are drawn as mutants meet them: each in a short run of its own, so that none is a variation of another.
"""

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis.strategies import SearchStrategy
from ml_dtypes import bfloat16

from specsim.host.proposals import LEAST_DRAFT_TEMPERATURE
from specsim.host.stopping import FinishReason
from specsim.properties import strategies
from specsim.properties.host.metrics.strategy import several_logs
from specsim.properties.host.proposals.strategy import (
    ChainCase,
    WalkCase,
    several_chain_cases,
    several_markov_cases,
    several_selector_cases,
)
from specsim.properties.host.schedules.strategy import ScheduleCase, several_cases
from specsim.properties.host.simulated.strategy import normal_draws
from specsim.properties.host.stops.laws import ending_of
from specsim.properties.host.stops.strategy import StopCase, stop_requests, text_of
from specsim.properties.operations.draft.laws import whole_drafts
from specsim.properties.operations.grammar.laws import state_after
from specsim.properties.operations.scheduled.strategy import limited_survivals, tied_survivals
from specsim.properties.property import Property
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.topology import Topology

CASES = 100
LEAST = 20
"""So many of these cases at least; most classes have twice as many."""

Case = dict[str, Any]


def has_negative_zero_before_zero_at_the_top(case: Case) -> bool:
    for row in case["values"]:
        is_negative = np.signbit(row[row == row.max()])
        if row.max() == 0 and (is_negative[:-1] & ~is_negative[1:]).any():
            return True
    return False


def lacks_the_end_of_the_mask(case: Case) -> bool:
    width, lengths = case["num_draft_tokens"], case["seq_lens"]
    return len(case["tree_mask"]) < width * (int(lengths.sum()) + width * len(lengths))


def has_short_paths_of_several_requests(case: Case) -> bool:
    counts = case["num_accepted_tokens"]
    return len(counts) > 1 and counts.max() < case["num_draft_tokens"]


def has_an_allowed_sibling_of_a_rejected_one(case: Case) -> bool:
    for request, first in enumerate(case["grammar_state"].tolist()):
        links = (case[f"retrieve_next_{name}"][request] for name in ("token", "sibling"))
        tree, tokens = Topology.from_links(*links), case["candidates"][request].tolist()
        for siblings in tree.children:
            states = [state_after(case, first, tree.path_to(node)[1:], tokens) for node in siblings]
            if any(one < 0 <= other for one, other in pairwise(states)):
                return True
    return False


def has_lists_in_several_layouts(case: Case) -> bool:
    return len({strategies.is_strided(entry) for entry in case["token_list"]}) > 1


def ends(case: StopCase) -> tuple[Any, ...] | None:
    return ending_of(case.rules, case.tokens, case.prompt_length)


def has_a_string_from_before_the_run(case: StopCase) -> bool:
    ending = ends(case)
    if ending is None or ending[0] is not FinishReason.STOP_STRING:
        return False
    return len(ending[2]) < len("".join(map(text_of, case.output)))


def has_a_string_in_the_front_of_a_long_run(case: StopCase) -> bool:
    ending = ends(case)
    if ending is None or ending[0] is not FinishReason.STOP_STRING:
        return False
    window = max(map(len, case.rules.stop_strings)) + 1
    return ending[1] - len(case.output) <= case.num_accepted_tokens - window


def has_a_string_below_the_minimum(case: StopCase) -> bool:
    ending = ends(case)
    num_free = len(case.tokens) if ending is None else ending[1] - 1
    texts = ["".join(map(text_of, case.tokens[: count + 1])) for count in range(num_free)]
    return any(stop in text for text in texts for stop in case.rules.stop_strings)


def has_a_rejected_eos_and_goes_on(case: StopCase) -> bool:
    return ends(case) is None and bool(case.rules.eos_tokens & set(case.row_tokens[case.num_accepted_tokens :]))


def falls_short_of_the_nearest_count(draw: tuple[float, int, float]) -> bool:
    mean, num_steps, sample = draw
    return mean > 0 and 1 < mean + sample < num_steps + 1 and (mean + sample) % 1 > 0.5


def ends_between_equal_survivals(case: Case) -> bool:
    best_first = np.sort(np.cumprod(case["confidence"], axis=1).ravel())[::-1]
    budget = case["verify_token_budget"]
    return 0 < budget < len(best_first) and best_first[budget - 1] == best_first[budget] > 0


def has_a_survival_of_just_the_least(case: Case) -> bool:
    eps = case["survival_eps"]
    return eps is not None and bool((np.cumprod(case["confidence"], axis=1) == eps).any())


def pads_a_ragged_window(case: Case) -> bool:
    lens = case["verify_lens"]
    return len(set(lens.tolist())) > 1 and case["num_tokens"] > lens.sum()


def has_rows_that_do_not_divide(case: Case) -> bool:
    num_padding = case["num_padded_requests"] - len(case["verify_lens"])
    return num_padding > 1 and (case["num_tokens"] - case["verify_lens"].sum()) % num_padding > 0


def has_a_gate_that_keeps_commits_out(case: Case) -> bool:
    gate = case["verify_lens"]
    return gate is not None and bool((gate < case["commit_lens"]).any())


def has_a_tie_inside_a_request_at_the_cut(case: ScheduleCase) -> bool:
    budget = case.history.verify_token_budget
    later = [one for of_front in case.confidences for front, one in of_front.items() if front]
    return budget is not None and 0 < budget < sum(case.num_drafts) and 1.0 in later


def pays_for_all_drafts_or_none(case: ScheduleCase) -> bool:
    num_requests = len(case.num_drafts)
    without, *others = np.unique(case.history.steps_per_second[num_requests:])[::-1]
    is_jump = len(others) == 1 and case.history.steps_per_second[num_requests + 1] == others[0]
    return case.history.verify_token_budget is None and is_jump and without > others[0]


def mixes_temperatures(case: WalkCase | ChainCase) -> bool:
    temperatures = case.arguments["temperatures"]
    return bool((temperatures == 0).any() and (temperatures > 0).any())


def is_colder_than_is_drawn(case: WalkCase) -> bool:
    return bool((case.arguments["temperatures"] < LEAST_DRAFT_TEMPERATURE)[0])


def rounds_what_it_draws_from(case: WalkCase) -> bool:
    return case.arguments["base_logits"].dtype == bfloat16


def cuts_a_mapped_vocabulary(case: WalkCase) -> bool:
    return case.arguments["num_candidates"] is not None and case.arguments["target_ids"] is not None


def has_other_candidates_than_before(case: WalkCase) -> bool:
    """Return whether a row of the batch, which an earlier walk wrote too, had other candidates there."""
    earlier = dict(zip(case.earlier["request_rows"].tolist(), case.earlier["candidates"], strict=True))
    walks = zip(case.arguments["request_rows"].tolist(), case.arguments["candidates"], strict=True)
    return any(np.setdiff1d(earlier[row][place], one).size for row, walk in walks for place, one in enumerate(walk))


def drops_tokens_by_filters(case: ChainCase) -> bool:
    return bool(case.arguments["top_k"][0] < case.columns.shape[2] or case.arguments["min_p"][0])


def among(predicate: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda cases: any(map(predicate, cases))


CALLS: dict[str, tuple[str, Callable[[Case], bool]]] = {
    "a negative zero before a zero at the top": ("fast_topk", has_negative_zero_before_zero_at_the_top),
    "a mask without its end": ("verify_custom_mask_metadata", lacks_the_end_of_the_mask),
    "paths shorter than the tree": ("prepare_for_extend_to_fill_draft_kvcache", has_short_paths_of_several_requests),
    "a budget that ends between equal survivals": ("schedule_verify_lens", ends_between_equal_survivals),
    "a walk past the cut": (
        "cap_accepted_drafts",
        lambda case: bool((case["num_accepted_drafts"] >= case["verify_lens"]).any()),
    ),
    "padding after several lengths": ("ragged_verify_window", pads_a_ragged_window),
    "rows that do not divide": ("pad_verify_lens_to_bucket", has_rows_that_do_not_divide),
    "a gate that keeps commits out": ("commit_inject_layout", has_a_gate_that_keeps_commits_out),
    "an allowed sibling of a rejected one": ("generate_token_bitmask", has_an_allowed_sibling_of_a_rejected_one),
}

OTHERS: dict[str, tuple[Callable[[], SearchStrategy[Any]], Callable[[Any], bool]]] = {
    "a survival of just the least": (limited_survivals, has_a_survival_of_just_the_least),
    "equal survivals of several requests": (tied_survivals, ends_between_equal_survivals),
    "several beams of several requests": (whole_drafts, lambda case: case["num_requests"] > 1 < case["topk"]),
    "a list with several layouts": (
        lambda: strategies.in_any_layout("organize_chain_draft_results"),
        has_lists_in_several_layouts,
    ),
    "a string from before the run": (stop_requests, among(has_a_string_from_before_the_run)),
    "a string in the front of a long run": (stop_requests, among(has_a_string_in_the_front_of_a_long_run)),
    "a string below the minimum": (stop_requests, among(has_a_string_below_the_minimum)),
    "a rejected EOS in a request that goes on": (stop_requests, among(has_a_rejected_eos_and_goes_on)),
    "a sum above the half between two counts": (normal_draws, among(falls_short_of_the_nearest_count)),
    "a tie inside a request where its drafts are cut": (several_cases, among(has_a_tie_inside_a_request_at_the_cut)),
    "steps that pay for all drafts or none": (several_cases, among(pays_for_all_drafts_or_none)),
    "drafts at 0 beside drawn ones": (several_markov_cases, among(mixes_temperatures)),
    "a temperature below the least that is drawn at": (several_markov_cases, among(is_colder_than_is_drawn)),
    "rows of bfloat16": (several_markov_cases, among(rounds_what_it_draws_from)),
    "candidates of a mapped vocabulary": (several_markov_cases, among(cuts_a_mapped_vocabulary)),
    "other candidates than in the walk before": (several_selector_cases, among(has_other_candidates_than_before)),
    "chains whose filters drop tokens": (several_chain_cases, among(drops_tokens_by_filters)),
    "a request without a draft": (several_logs, among(lambda log: log.num_drafts_per_round == 0)),
}


def number_of(predicate: Callable[[Any], bool], strategy: Callable[[], SearchStrategy[Any]]) -> int:
    """Return how many fresh cases of a strategy satisfy a predicate."""
    return sum(map(bool, map(predicate, fresh_cases(strategy))))


@cache
def fresh_cases(strategy: Callable[[], SearchStrategy[Any]]) -> list[Any]:
    """Return fresh cases of a strategy, drawn once for all predicates."""
    return draw_cases(Property("often", "", (), strategy, lambda backend, case: None), number=0, max_examples=CASES)


@cache
def calls_of(operation: str) -> Callable[[], SearchStrategy[Any]]:
    """Return a strategy of calls, the same one for each predicate."""
    return partial(strategies.for_operation, operation)


@pytest.mark.parametrize("what", CALLS)
def test_calls_are_common_with(what: str) -> None:
    operation, predicate = CALLS[what]
    assert number_of(predicate, calls_of(operation)) >= LEAST


@pytest.mark.parametrize("what", OTHERS)
def test_cases_are_common_with(what: str) -> None:
    strategy, predicate = OTHERS[what]
    assert number_of(predicate, strategy) >= LEAST
