"""Laws of sampled verify: rows are drawn by races, and drafts that equal the draws are accepted.

Whatever is drafted, the output is what decoding token by token on the same noise emits, path by path; so its law is the
target's, with no coins to enumerate.
"""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.noise import arrivals, stream_key
from specsim.properties.distribution import EVERYTHING, NOTHING, Distribution, require_same_law
from specsim.properties.laws.checks import (
    Array,
    Case,
    arrangements,
    batch_of,
    outputs_of,
    require,
    require_equal,
    states,
)
from specsim.properties.laws.sampling_cells import emitted_along_paths, slack_of, tree_links, walk_law
from specsim.properties.operations.acceptance.laws_exact_trees import describe, law_of_tree
from specsim.properties.operations.generated.margin_cases import near_boundaries
from specsim.properties.operations.generated.ties import sample_target_predict as tied_requests
from specsim.properties.operations.sampled_verify.strategy import ToyRun, far_apart, toy_runs
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.sampling_scenes import TreeScene, tree_scenes, twin_scenes
from specsim.reference.sampled_verify import first_to_arrive

_DRAW, _WALK = "sample_target_predict", "verify_tree_greedy"


def drawn(backend: Backend, case: Case) -> Array:
    """Return what each row draws."""
    values: Array = outputs_of(backend, _DRAW, case)["target_predict"]
    return values


def compared(case: Case) -> list[int]:
    """Return the requests whose draws are certain: no race or filter decides closely, nor a tie where ties are free."""
    near = near_boundaries(_DRAW, case)
    is_open = np.zeros(len(case["seeds"]), dtype=np.bool_) if near is None else near
    if limits().ties_are_free:
        is_open = is_open | tied_requests(case, {}, {})
    return [int(request) for request in np.flatnonzero(~is_open)]


def draws_win_their_race(backend: Backend, case: Case) -> None:
    """Of every row the token comes that arrives first, by its probability and the noise of its seed and position."""
    num_nodes = case["positions"].shape[1]
    rows = {name: case[name] for name in ("logits", "temperature", "top_k", "top_p", "min_p")}
    weights = outputs_of(backend, "target_probabilities", {**rows, "num_draft_tokens": num_nodes})["target_probs"]
    got = drawn(backend, case)
    for request in compared(case):
        for node, position in enumerate(case["positions"][request].tolist()):
            row = weights[request * num_nodes + node]
            key = stream_key("token", int(case["seeds"][request]), position + 1)
            winner = first_to_arrive(row, arrivals(key, len(row)))
            require_equal(f"the draw of request {request} after node {node}", got[request, node], winner)


def cold_rows_draw_the_largest_logit(backend: Backend, case: Case) -> None:
    """At temperature 0 the first largest logit is drawn, whatever seed and position are."""
    cold = {**case, "temperature": np.zeros_like(case["temperature"])}
    got = drawn(backend, cold)
    best = np.argmax(case["logits"].astype(np.float32), axis=1).reshape(got.shape)
    require_equal("target_predict", got[compared(cold)], best[compared(cold)])


def a_draw_depends_on_its_row_seed_and_position_alone(backend: Backend, case: Case) -> None:
    """The same row draws the same token in any order of the batch, at any node, and in a tree of one node."""
    num_requests, num_nodes = case["positions"].shape
    rows = case["logits"].reshape(num_requests, num_nodes, case["logits"].shape[1])
    whole, certain = drawn(backend, case), compared(case)
    for requests in arrangements(num_requests):
        part = batch_of(_DRAW, case, requests)
        for nodes in (list(range(num_nodes))[::-1], [num_nodes - 1]):
            chosen = np.ascontiguousarray(rows[requests][:, nodes])
            positions = np.ascontiguousarray(part["positions"][:, nodes])
            got = drawn(backend, {**part, "positions": positions, "logits": chosen.reshape(-1, rows.shape[2])})
            for place, request in enumerate(requests):
                if request in certain:
                    what = f"the draws of request {request} after nodes {nodes} in batch {requests}"
                    require_equal(what, got[place], whole[request, nodes])


def distinct_seeds_and_positions_draw_apart(backend: Backend, case: Case) -> None:
    """Of rows of a thousand equal logits no two seeds or positions draw one token much oftener than by chance."""
    got = drawn(backend, case)
    tokens, counts = np.unique(got, return_counts=True)
    most = int(counts.max())
    what = f"draws of token {int(tokens[counts.argmax()])} of {got.size} at other seeds or positions"
    require(most <= 8, what, most, "at most 8")


def the_output_is_that_of_plain_decoding(backend: Backend, run: ToyRun) -> None:
    """Of any tree the accepted path and its bonus are the tokens that one row at a time draws on the same noise."""
    depths = np.array([run.topology.depths], dtype=np.int64)
    rows = np.concatenate([run.logits_after(run.path_to(node)) for node in range(len(run.topology))])
    choices = drawn(backend, {"logits": rows, **run.parameters(), "positions": run.position + depths})
    (emitted,) = emitted_along_paths(outputs_of(backend, _WALK, {**tree_links([run], [1]), "target_predict": choices}))
    plain, node = tuple[int, ...](), 0
    for place, token in enumerate(emitted):
        one = {"logits": run.logits_after(plain), **run.parameters(), "positions": np.array([[run.position + place]])}
        if not compared(one):
            return
        plain = (*plain, int(drawn(backend, one)[0, 0]))
        require_equal(f"output token {place} of {run}", token, plain[-1])
        below = [child for child in run.topology.children[node] if run.tokens[child] == token]
        is_last = place == len(emitted) - 1
        require(
            bool(below) is not is_last, f"drafts at output token {place} of {run}", below, "one, but for the last token"
        )
        node = below[0] if below else node


def law_over_draws(backend: Backend, scene: TreeScene) -> Distribution:
    """Return the exact law of what a tree emits whose rows draw their tokens independently."""
    possible = [[token for token, share in enumerate(row) if share] for row in scene.rows]
    every = list(product(*possible))
    choices = np.array(every, dtype=np.int64)
    outputs = outputs_of(backend, _WALK, {**tree_links([scene], [len(every)]), "target_predict": choices})
    law: Distribution = {}
    for tokens, emitted in zip(every, emitted_along_paths(outputs), strict=True):
        chance = prod((row[token] for row, token in zip(scene.rows, tokens, strict=True)), start=EVERYTHING)
        law[emitted] = law.get(emitted, NOTHING) + chance
    return law


def independent_draws_emit_the_targets_law(backend: Backend, scene: TreeScene) -> None:
    """Over independent draws of all rows a walked tree emits each sequence as often as the target alone would."""
    require_same_law(f"law of {describe(scene)}", law_over_draws(backend, scene), walk_law(scene))


def a_draft_is_accepted_as_often_as_it_is_drawn(backend: Backend, scene: TreeScene) -> None:
    """The root is passed with the chance of its distinct children together, and no less."""
    got = sum((weight for sequence, weight in law_over_draws(backend, scene).items() if len(sequence) > 1), NOTHING)
    tokens = {scene.tokens[child] for child in scene.topology.children[0]} if scene.num_steps else set[int]()
    expected = sum((scene.rows[0][token] for token in tokens), Fraction(0))
    require(got == expected, f"chance of an accepted draft, {describe(scene)}", got, expected)


def draws_and_coins_have_one_law(backend: Backend, scene: TreeScene) -> None:
    """At thresholds 1 the tree sampler gives path and bonus the law that drawn rows give them, term by term."""
    by_coins = law_of_tree(backend, scene, slack_of(scene.vocab_size))
    require_same_law(f"law of {describe(scene)}", law_over_draws(backend, scene), by_coins)


PROPERTIES = states(
    "sampled_verify",
    (draws_win_their_race, (_DRAW, "target_probabilities"), "P13"),
    (cold_rows_draw_the_largest_logit, _DRAW, "P12"),
    (a_draw_depends_on_its_row_seed_and_position_alone, _DRAW, "P31"),
    (distinct_seeds_and_positions_draw_apart, far_apart, _DRAW, "P10"),
    (the_output_is_that_of_plain_decoding, toy_runs, (_DRAW, _WALK), "P10"),
    (independent_draws_emit_the_targets_law, tree_scenes, _WALK, "P03"),
    (a_draft_is_accepted_as_often_as_it_is_drawn, twin_scenes, _WALK, "P03"),
    (draws_and_coins_have_one_law, twin_scenes, (_WALK, "tree_speculative_sampling_target_only"), "P03"),
)
