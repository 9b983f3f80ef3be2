"""Laws of greedy acceptance of ragged chains: each is a tree without branches, of which the matching front is kept."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require_equal, state
from specsim.properties.laws.links import links_of_chains
from specsim.properties.operations.acceptance.chains import rows_of, taken
from specsim.properties.operations.acceptance.laws_chains import chains_are_sampled_one_by_one, of_sampler
from specsim.properties.operations.verify import strategy as verify_strategies

_VERIFY = "verify_chain_greedy"
_TREE = "verify_tree_greedy"


def chains_accept_the_matching_prefix(backend: Backend, case: Case) -> None:
    """The drafts before the first one that the target does not choose are output, and its choice in that place."""
    expected = [matching_prefix(case, request) for request in range(len(rows_of(case)))]
    require_tokens(backend, case, expected, case["max_num_drafts"], "")


def a_chain_is_a_tree_without_branches(backend: Backend, case: Case) -> None:
    """Each chain is accepted as by the verification of trees, as a tree in which no node has a sibling."""
    expected = []
    for request, (first, last) in enumerate(rows_of(case)):
        drafts = case["draft_tokens"][first:last]
        num_nodes = int((drafts >= 0).cumprod().sum()) + 1
        tree = {
            **links_of_chains(np.append(0, drafts[: num_nodes - 1])[None]),
            "target_predict": case["target_predict"][None, first + request : first + request + num_nodes],
            "num_steps": num_nodes - 1,
        }
        walked = outputs_of(backend, _TREE, tree)
        expected.append(walked["predict"][: int(walked["num_accepted_drafts"][0]) + 1].tolist())
    require_tokens(backend, case, expected, case["max_num_drafts"], " as of trees")


def choices_after_the_last_token_do_not_matter(backend: Backend, case: Case) -> None:
    """Neither the target's choices after the last token nor drafts after the one that it replaces change anything."""
    expected = [matching_prefix(case, request) for request in range(len(rows_of(case)))]
    tokens, chosen = case["draft_tokens"].copy(), case["target_predict"].copy()
    for request, (first, last) in enumerate(rows_of(case)):
        count = len(expected[request])
        tokens[first + count : last] = (tokens[first + count : last] + 2) % 3
        chosen[first + request + count : last + request + 1] = np.append(tokens[first + count : last], 7)[
            : last - first + 1 - count
        ]
    other = {**case, "draft_tokens": tokens, "target_predict": chosen}
    require_tokens(backend, other, expected, case["max_num_drafts"], " before others")


def a_cut_chain_ends_at_the_cut(backend: Backend, case: Case) -> None:
    """Of a chain of which only the first drafts are verified, the output is that of the whole one, but no longer."""
    ends = [first + (last - first + 1) // 2 for first, last in rows_of(case)]
    num_verified = [end - first for (first, _), end in zip(rows_of(case), ends, strict=True)]
    expected = [matching_prefix(case, request)[: count + 1] for request, count in enumerate(num_verified)]
    require_tokens(backend, taken(case, range(len(ends)), ends), expected, case["max_num_drafts"], " of cut chains")


def a_padded_tail_ends_the_draft(backend: Backend, case: Case) -> None:
    """Drafts that are padded with -1 are those of a chain that ends there, whatever the target chooses after it."""
    tokens = case["draft_tokens"].copy()
    num_verified = [(last - first) // 2 for first, last in rows_of(case)]
    for (first, last), count in zip(rows_of(case), num_verified, strict=True):
        tokens[first + count : min(first + count + 1, last)] = -1
    expected = [matching_prefix(case, request)[: count + 1] for request, count in enumerate(num_verified)]
    require_tokens(backend, {**case, "draft_tokens": tokens}, expected, case["max_num_drafts"], " of padded drafts")


def matching_prefix(case: Case, request: int) -> list[int]:
    """Return the output of a request: the target's choices up to the first that is no draft."""
    first, last = rows_of(case)[request]
    drafts = case["draft_tokens"][first:last].tolist()
    chosen: list[int] = case["target_predict"][first + request : last + request + 1].tolist()
    agrees = [draft == choice for draft, choice in zip(drafts, chosen, strict=False)]
    return chosen[: [*agrees, False].index(False) + 1]


def require_tokens(backend: Backend, case: Case, expected: list[list[int]], most: int, how: str) -> None:
    """Raise AssertionError unless a case outputs some tokens, and a row of each request is padded with -1."""
    got = outputs_of(backend, _VERIFY, case)
    rows = np.array([tokens + [-1] * (most + 1 - len(tokens)) for tokens in expected]).reshape(len(expected), most + 1)
    require_equal(f"output_tokens{how}", got["output_tokens"], rows)
    require_equal(f"num_accepted_drafts{how}", got["num_accepted_drafts"], [len(tokens) - 1 for tokens in expected])


_chains = verify_strategies.verify_chain_greedy
_CHAIN = (_VERIFY,)
_one_by_one = of_sampler(_VERIFY, chains_are_sampled_one_by_one, "chains_are_verified_one_by_one")

PROPERTIES = (
    state("greedy_chains", chains_accept_the_matching_prefix, _chains, _CHAIN, "P22"),
    state("greedy_chains", a_chain_is_a_tree_without_branches, _chains, (_VERIFY, _TREE), "P21"),
    state("greedy_chains", choices_after_the_last_token_do_not_matter, _chains, _CHAIN, "P23"),
    state("greedy_chains", a_cut_chain_ends_at_the_cut, _chains, _CHAIN, "P23"),
    state("greedy_chains", a_padded_tail_ends_the_draft, _chains, _CHAIN, "P37"),
    state("greedy_chains", _one_by_one, _chains, _CHAIN, "P31"),
)
