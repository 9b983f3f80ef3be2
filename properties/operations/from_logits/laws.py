"""Laws of acceptance straight from logits: it is what its parts compose to, and reads the visited rows only."""

import numpy as np

from specsim.conformance.backend import Backend, Outcome
from specsim.properties.laws.checks import Case, outputs_of, require, require_equal, states
from specsim.properties.laws.links import require_walked_one_by_one, walked
from specsim.properties.laws.sampling_cells import TREE_SAMPLER
from specsim.properties.operations.from_logits import strategy as logit_strategies
from specsim.properties.operations.generated.agreement import require_same_outputs
from specsim.properties.operations.generated.ties import tied_requests
from specsim.properties.strategies.filters import given_filters
from specsim.properties.strategies.limits import limits

_GREEDY = "verify_tree_greedy_from_logits"
_SAMPLED = "verify_tree_sampled_from_logits"
_LINKS = ("candidates", "retrieve_next_token", "retrieve_next_sibling")
_COINS = ("uniform_samples", "uniform_samples_for_final_sampling")
_THRESHOLDS = ("threshold_single", "threshold_acc")
_SWITCHES = ("num_steps", "strict", "skip_duplicates")
_BELOW_ANY_SUM = 1 - 2.0**-10
"""Coins above it may reject all of a row's mass, because the sum of a row may miss 1 by rounding."""
_TREE = (*_LINKS, "retrieve_index", "num_steps")


def greedy_acceptance_is_argmax_and_walk(backend: Backend, case: Case) -> None:
    """The outputs are those of the argmax of every row and the greedy walk along them."""
    logits = case["logits"].astype(np.float32)
    chosen = outputs_of(backend, "argmax_target_predict", {"logits": logits})["target_predict"]
    parts = {**{name: case[name] for name in _TREE}, "target_predict": chosen.reshape(case["candidates"].shape)}
    require_same_outputs(_GREEDY, case, backend.run("verify_tree_greedy", parts), backend.run(_GREEDY, case))


def sampled_acceptance_is_filters_and_walk(backend: Backend, case: Case) -> None:
    """The outputs are those of the target's distributions of all rows and the tree sampler."""
    shape = (*case["candidates"].shape, case["logits"].shape[1])
    rows = {"logits": case["logits"], **given_filters(case)}
    target_probs = outputs_of(backend, "target_probabilities", {**rows, "num_draft_tokens": shape[1]})["target_probs"]
    names = (*_TREE, *_COINS, *_THRESHOLDS, *_SWITCHES)
    probabilities = {"target_probs": target_probs.reshape(shape), "draft_probs": np.zeros(shape, dtype=np.float32)}
    sampled = outputs_of(backend, TREE_SAMPLER, {**{name: case[name] for name in names}, **probabilities})
    sampled.pop("draft_probs")
    require_same_outputs(_SAMPLED, case, Outcome(sampled, {}), backend.run(_SAMPLED, case))


def rows_off_the_path_do_not_matter(backend: Backend, case: tuple[str, Case]) -> None:
    """Other logits in the rows that the walk does not visit change nothing."""
    operation, arguments = case
    before = outputs_of(backend, operation, arguments)
    num_requests, num_nodes = arguments["candidates"].shape
    is_visited = np.zeros(num_requests * num_nodes, dtype=np.bool_)
    is_visited[before["accept_index"][before["accept_index"] >= 0]] = True
    token = np.arange(arguments["logits"].shape[1])
    garbage = np.where(token % 2 == 0, 300.0, -300.0).astype(arguments["logits"].dtype)
    logits = np.where(is_visited[:, None], arguments["logits"], garbage[None])
    after = outputs_of(backend, operation, {**arguments, "logits": logits})
    compared = _untied(arguments)
    require_equal("accept_index", after["accept_index"][compared], before["accept_index"][compared])
    for request in compared:
        same = f"the output of request {request} beside other rows"
        require_equal(same, walked(arguments, after, request)[1], walked(arguments, before, request)[1])


def requests_are_accepted_one_by_one(backend: Backend, case: tuple[str, Case]) -> None:
    """A request's path and output are the same alone, and in any order of the batch."""
    operation, arguments = case
    require_walked_one_by_one(backend, operation, arguments, _untied(arguments))


def forbidden_tokens_are_never_output(backend: Backend, case: tuple[str, Case]) -> None:
    """Under the strict rule no output token has a logit of -inf in the row that it follows."""
    operation, arguments = case
    if operation == _SAMPLED:
        coins = np.minimum(arguments["uniform_samples"], np.float32(_BELOW_ANY_SUM))
        arguments = {**arguments, "strict": True, "uniform_samples": coins}
    outputs = outputs_of(backend, operation, arguments)
    logits = arguments["logits"].astype(np.float32)
    rows = logits.reshape(*arguments["candidates"].shape, logits.shape[1])
    for request in range(len(rows)):
        path, tokens = walked(arguments, outputs, request)
        for node, token in zip(path, tokens.tolist(), strict=True):
            logit = rows[request, node, token]
            require(logit > -np.inf, f"the logit of token {token} after node {node}", logit, "finite")


def greedy_requests_are_verified_greedily(backend: Backend, case: Case) -> None:
    """At temperature 0, whatever the coins, the outputs are those of greedy acceptance."""
    cold = {**case, "temperature": np.zeros_like(case["temperature"]), "strict": True}
    sampled = outputs_of(backend, _SAMPLED, cold)
    greedy = outputs_of(backend, _GREEDY, {name: case[name] for name in (*_TREE, "logits")})
    compared = _untied(cold)
    require_equal("accept_index", sampled["accept_index"][compared], greedy["accept_index"][compared])
    for request in compared:
        require_equal("the output", walked(case, sampled, request)[1], walked(case, greedy, request)[1])


def _untied(arguments: Case) -> list[int]:
    """Return the requests that every call has to walk alike: all of them, or where ties are free those without any."""
    if not limits().ties_are_free:
        return list(range(len(arguments["candidates"])))
    return [int(request) for request in np.flatnonzero(~tied_requests(arguments))]


_calls = logit_strategies.calls
_sampled = logit_strategies.verify_tree_sampled_from_logits

PROPERTIES = states(
    "from_logits",
    (greedy_acceptance_is_argmax_and_walk, (_GREEDY, "argmax_target_predict", "verify_tree_greedy"), "P22"),
    (sampled_acceptance_is_filters_and_walk, (_SAMPLED, "target_probabilities", TREE_SAMPLER), "P13"),
    (rows_off_the_path_do_not_matter, _calls, (_GREEDY, _SAMPLED), "P31"),
    (requests_are_accepted_one_by_one, _calls, (_GREEDY, _SAMPLED), "P31"),
    (forbidden_tokens_are_never_output, _calls, (_GREEDY, _SAMPLED), "P07"),
    (greedy_requests_are_verified_greedily, _sampled, (_GREEDY, _SAMPLED), "P12"),
)
