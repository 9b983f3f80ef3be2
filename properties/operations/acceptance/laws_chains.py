"""Laws of ragged chains: drafts are accepted below the ratio of two laws; a rejection draws from what is left."""

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, arrangements, outputs_of, require, require_equal, state
from specsim.properties.operations.acceptance import strategy_chains as chain_strategies
from specsim.properties.operations.acceptance.decided import COIN_STEP, decide_chain

_SAMPLER = "chain_speculative_sampling"
_FINAL = "uniform_samples_for_final_sampling"
_OF_DRAFTS = ("draft_tokens", "uniform_samples", "draft_probs")
_OF_ROWS = ("target_probs", "target_predict")
"""Arguments of ragged chains with an entry a draft, and with one more a request."""

_SURE = 1 - 2.0**-16
"""Times it, no product in single precision rounds back to its factor."""


def ratios_decide_as_stated(backend: Backend, case: Case) -> None:
    """On exact rows a draft is accepted if coin * q < p and q > 0, and the next token comes from max(p - q, 0) or p."""
    sampled = outputs_of(backend, _SAMPLER, case)
    for request in range(len(case["cu_num_drafts"]) - 1):
        decided = decide_chain(case, request)
        if decided.is_exact:
            padding = [-1] * (case["max_num_drafts"] + 1 - len(decided.tokens))
            require_equal(f"output {request}", sampled["output_tokens"][request], [*decided.tokens, *padding])
            require_equal("num_accepted_drafts", sampled["num_accepted_drafts"][request], len(decided.tokens) - 1)


def chains_output_drafts_and_one_token(backend: Backend, case: Case) -> None:
    """The output is a prefix of the drafts before any -1, and one token; nothing impossible is accepted or drawn."""
    sampled = outputs_of(backend, _SAMPLER, case)
    for request, (first, last) in enumerate(rows_of(case)):
        count, output = require_possible_drafts(sampled, case, request)
        rest = case["target_probs"][first + request + count].copy()
        if first + count < last and case["draft_tokens"][first + count] >= 0:
            rest = np.maximum(rest - proposal_at(case, first + count), 0)
        if rest.any():
            require(rest[output[count]] > 0, "the rest of the last token", rest[output[count]], "above 0")


def require_possible_drafts(sampled: dict[str, Array], case: Case, request: int) -> tuple[int, Array]:
    """Return the accepted drafts of a request and its output row; they are possible drafts, a token, and padding."""
    first, last = rows_of(case)[request]
    count, output = int(sampled["num_accepted_drafts"][request]), sampled["output_tokens"][request]
    require_equal("the drafts", output[:count], case["draft_tokens"][first : first + count])
    require((output[: count + 1] >= 0).all(), "an output token", output.tolist(), "a token")
    require_equal("the padding", output[count + 1 :], np.full(len(output) - count - 1, -1))
    target = case["target_probs"][first + request : last + request + 1]
    chances = target[np.arange(count), output[:count]]
    require((chances > 0).all(), "the chances of the accepted drafts", chances.tolist(), "above 0")
    return count, output


def a_rejection_that_leaves_nothing_draws_a_token(backend: Backend, case: Case) -> None:
    """Where rounding alone rejects a draft, and nothing is left to draw from, a token still comes."""
    sampled = outputs_of(backend, _SAMPLER, case)
    counts, tokens = sampled["num_accepted_drafts"], sampled["output_tokens"]
    require(((counts == 0) | (counts == 1)).all(), "num_accepted_drafts", counts.tolist(), "0 or 1")
    last = tokens[np.arange(len(tokens)), counts]
    is_token = (last >= 0) & (last < case["target_probs"].shape[1])
    require(is_token.all(), "the last tokens", last.tolist(), "tokens")


def equal_laws_accept_every_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's law is the target's own, every possible draft is accepted."""
    rows = [row + request for request, (first, last) in enumerate(rows_of(case)) for row in range(first, last)]
    laws = case["target_probs"][rows]
    tokens = np.where(case["draft_tokens"] >= 0, laws.argmax(axis=1), -1)
    coins = np.minimum(case["uniform_samples"], np.float32(_SURE))
    agreed = {**case, "draft_probs": laws, "draft_tokens": tokens, "uniform_samples": coins}
    counts = outputs_of(backend, sampler, agreed)["num_accepted_drafts"]
    expected = [int(np.cumprod(tokens[first:last] >= 0).sum()) for first, last in rows_of(case)]
    require_equal("num_accepted_drafts", counts, expected)


def absent_laws_mean_certain_drafts(sampler: str, backend: Backend, case: Case) -> None:
    """Without the drafts' laws every draft counts as certain."""
    vocab = case["target_probs"].shape[1]
    certain = (np.arange(vocab) == case["draft_tokens"][:, None]).astype(np.float32)
    given = outputs_of(backend, sampler, {**case, "draft_probs": certain})
    absent = outputs_of(backend, sampler, {**case, "draft_probs": None})
    require_equal("output_tokens", absent["output_tokens"], given["output_tokens"])


def a_padded_tail_ends_the_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Drafts padded with -1 give what ragged ones give, whatever stands beside the padding."""
    plain = outputs_of(backend, sampler, case)["output_tokens"]
    got = outputs_of(backend, sampler, padded(case, 2))["output_tokens"]
    require_equal("output_tokens of padded drafts", got[:, : plain.shape[1]], plain)
    require_equal("the rest", got[:, plain.shape[1] :], np.full((len(plain), got.shape[1] - plain.shape[1]), -1))


def rows_behind_the_last_token_do_not_matter(backend: Backend, case: Case) -> None:
    """What stands in the rows after the one that the last token is drawn from changes nothing, be it no number."""
    whole = outputs_of(backend, _SAMPLER, case)
    unread = {**case, "target_probs": case["target_probs"].copy()}
    laws = case["draft_probs"]
    unread["draft_probs"] = None if laws is None else laws.copy()
    for request, (first, last) in enumerate(rows_of(case)):
        count = int(whole["num_accepted_drafts"][request])
        unread["target_probs"][first + request + count + 1 : last + request + 1] = np.nan
        if laws is not None:
            unread["draft_probs"][first + count + 1 : last] = np.nan
    got = outputs_of(backend, _SAMPLER, unread)
    for name in whole:
        require_equal(f"{name} beside rows of NaN", got[name], whole[name])


def chains_are_sampled_one_by_one(sampler: str, backend: Backend, case: Case) -> None:
    """A request's output is the same alone, and in any order of the batch."""
    whole = outputs_of(backend, sampler, case)
    for requests in arrangements(len(case["cu_num_drafts"]) - 1):
        got = outputs_of(backend, sampler, taken(case, requests))
        for name in whole:
            require_equal(f"{name} of batch {requests}", got[name], whole[name][requests])


def final_coin_draws_the_token_after_the_drafts(backend: Backend, case: Case) -> None:
    """Another final coin accepts the same drafts; coins after the first rejection do not matter."""
    before = other_final_coins_accept_the_same_drafts(_SAMPLER, backend, case)
    coins = case["uniform_samples"].copy()
    for (first, last), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
        coins[first + count + 1 : last] = 0
    unused = outputs_of(backend, _SAMPLER, {**case, "uniform_samples": coins})
    require_equal("output_tokens under other unused coins", unused["output_tokens"], before["output_tokens"])


def other_final_coins_accept_the_same_drafts(sampler: str, backend: Backend, case: Case) -> dict[str, Array]:
    """Another final coin accepts the same drafts; return the outputs of the first."""
    before = outputs_of(backend, sampler, case)
    flipped = (1 - COIN_STEP - case[_FINAL]).astype(np.float32)
    after = outputs_of(backend, sampler, {**case, _FINAL: flipped})
    require_equal("num_accepted_drafts", after["num_accepted_drafts"], before["num_accepted_drafts"])
    return before


def of_sampler(sampler: str, law: Callable[[str, Backend, Case], object]) -> Callable[[Backend, Case], None]:
    """Return a law of all samplers of chains as one of a sampler, under the same name."""

    @wraps(law)
    def holds(backend: Backend, case: Case) -> None:
        law(sampler, backend, case)

    return holds


def rows_of(case: Case) -> list[tuple[int, int]]:
    """Return where each request's drafts start and end."""
    offsets = case["cu_num_drafts"].tolist()
    return list(pairwise(offsets))


def proposal_at(case: Case, place: int) -> Array:
    """Return the law of one draft."""
    if case["draft_probs"] is not None:
        return np.asarray(case["draft_probs"][place])
    vocab = case["target_probs"].shape[1]
    return np.asarray(np.arange(vocab) == case["draft_tokens"][place]).astype(np.float32)


def taken(case: Case, requests: Sequence[int], ends: Sequence[int] | None = None) -> Case:
    """Return the case with only some requests, in the order given; ``ends`` is where the drafts of each end earlier."""
    bounds = [rows_of(case)[request] for request in requests]
    if ends is not None:
        bounds = [(first, end) for (first, _), end in zip(bounds, ends, strict=True)]
    none = np.zeros(0, dtype=np.int64)
    drafts = np.concatenate([none, *(np.arange(first, last) for first, last in bounds)])
    pairs = zip(requests, bounds, strict=True)
    rows = np.concatenate([none, *(np.arange(first + r, last + r + 1) for r, (first, last) in pairs)])
    places = {**dict.fromkeys(_OF_DRAFTS, drafts), **dict.fromkeys(_OF_ROWS, rows), _FINAL: list(requests)}
    chosen = {name: case[name][at] for name, at in places.items() if case.get(name) is not None}
    offsets = np.cumsum([0, *(last - first for first, last in bounds)]).astype(np.int32)
    return {**case, **chosen, "cu_num_drafts": offsets}


def padded(case: Case, count: int) -> Case:
    """Return the case with sentinels after each draft; beside them, copies of the target's rows."""
    offsets = case["cu_num_drafts"]
    request = np.arange(len(offsets), dtype=np.int32)
    ends = np.repeat(offsets[1:], count)
    last_rows = np.repeat(offsets[1:] + request[1:], count)
    beside = case["target_probs"][last_rows - 1]
    draft_probs = case["draft_probs"]
    return {
        **case,
        "draft_tokens": np.insert(case["draft_tokens"], ends, -1),
        "cu_num_drafts": offsets + request * np.int32(count),
        "uniform_samples": np.insert(case["uniform_samples"], ends, 0),
        "draft_probs": None if draft_probs is None else np.insert(draft_probs, ends, beside, axis=0),
        "target_probs": np.insert(case["target_probs"], last_rows, beside[:, ::-1], axis=0),
        "max_num_drafts": case["max_num_drafts"] + count,
    }


def _chains() -> SearchStrategy[Case]:
    return chain_strategies.chain_speculative_sampling()


def _whole_chains() -> SearchStrategy[Case]:
    return chain_strategies.chain_speculative_sampling(is_whole=True)


def _exact_chains() -> SearchStrategy[Case]:
    return chain_strategies.chain_speculative_sampling(is_table=True)


def _rounded_chains() -> SearchStrategy[Case]:
    return chain_strategies.laws_that_round_apart()


_CHAIN = (_SAMPLER,)

PROPERTIES = (
    state("chains", ratios_decide_as_stated, _exact_chains, _CHAIN, "P08"),
    state("chains", chains_output_drafts_and_one_token, _chains, _CHAIN, "P07"),
    state("chains", a_rejection_that_leaves_nothing_draws_a_token, _rounded_chains, _CHAIN, "P07"),
    state("chains", of_sampler(_SAMPLER, equal_laws_accept_every_draft), _whole_chains, _CHAIN, "P06"),
    state("chains", of_sampler(_SAMPLER, absent_laws_mean_certain_drafts), _whole_chains, _CHAIN, "P63"),
    state("chains", of_sampler(_SAMPLER, a_padded_tail_ends_the_draft), _chains, _CHAIN, "P37"),
    state("chains", rows_behind_the_last_token_do_not_matter, _whole_chains, _CHAIN, "P09"),
    state("chains", of_sampler(_SAMPLER, chains_are_sampled_one_by_one), _chains, _CHAIN, "P31"),
    state("chains", final_coin_draws_the_token_after_the_drafts, _chains, _CHAIN, "P09"),
)
