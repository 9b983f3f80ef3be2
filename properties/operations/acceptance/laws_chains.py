"""Laws of ragged chains: drafts are accepted below the ratio of two laws; a rejection draws from what is left.

Those that take the name of a sampler hold of each that is given chains.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, arrangements, outputs_of, require, require_equal, states
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER, CHAIN_SAMPLER
from specsim.properties.operations.acceptance.chains import (
    FINAL,
    padded,
    rows_of,
    rows_of_drafts,
    sides_of,
    taken,
    with_copies,
)
from specsim.properties.operations.acceptance.decided import COIN_STEP, Decide, chain_of, decide_chain
from specsim.properties.operations.acceptance.strategy_chains import (
    chain_speculative_sampling,
    laws_that_round_apart,
    shares_of_fronts,
)
from specsim.properties.property import Property

_SURE = 1 - 2.0**-16
"""Times it, no product in single precision rounds back to its factor."""

_ROUNDED = 2.0**-18
"""By so much of it a product in single precision may be off."""


def ratios_decide_as_stated(backend: Backend, case: Case) -> None:
    """On exact rows a draft is accepted if coin * q < p and q > 0, and the next token comes from max(p - q, 0) or p."""
    require_decided(CHAIN_SAMPLER, backend, case, decide_chain)


def require_decided(sampler: str, backend: Backend, case: Case, decide: Decide) -> None:
    """Raise AssertionError unless the outputs are what is decided, wherever that is exact."""
    sampled = outputs_of(backend, sampler, case)
    for request in range(len(rows_of(case))):
        decided = decide(case, request)
        if decided.is_exact:
            padding = [-1] * (case["max_num_drafts"] + 1 - len(decided.tokens))
            require_equal(f"output {request}", sampled["output_tokens"][request], [*decided.tokens, *padding])
            require_equal("num_accepted_drafts", sampled["num_accepted_drafts"][request], len(decided.tokens) - 1)


def drafts_and_one_token_come_out(sampler: str, backend: Backend, case: Case) -> None:
    """The output is a prefix of the drafts before any -1, and one token; nothing impossible is accepted or drawn."""
    sampled = outputs_of(backend, sampler, case)
    for request in range(len(rows_of(case))):
        count, output = int(sampled["num_accepted_drafts"][request]), sampled["output_tokens"][request]
        tokens, target, proposal = chain_of(case, request)
        require_equal("the drafts", output[:count], tokens[:count])
        require((output[: count + 1] >= 0).all(), "an output token", output.tolist(), "a token")
        require_equal("the padding", output[count + 1 :], np.full(len(output) - count - 1, -1))
        place = np.arange(count)
        for whose, rows in (("target", target), ("draft", proposal)):
            chances = rows[place, output[:count]]
            require((chances > 0).all(), f"the {whose}'s chances of accepted drafts", chances.tolist(), "above 0")
        wanted, spent, rounded = target[count], np.zeros_like(target[count]), 0.0
        if count < len(tokens):
            spent = proposal[count]
        if count < len(tokens) and sampler == BLOCK_SAMPLER:
            wanted, rounded = shares_of_fronts(tokens, target, proposal)[count] * wanted, _ROUNDED
        if (wanted > spent * (1 + rounded)).any():
            left = (wanted * (1 + rounded) - spent)[output[count]]
            require(left > 0, "the rest of the last token, rounded up", left, "above 0")


def a_rejection_that_leaves_nothing_draws_a_token(backend: Backend, case: Case) -> None:
    """Where rounding alone rejects a draft, and nothing is left to draw from, a token still comes."""
    sampled = outputs_of(backend, CHAIN_SAMPLER, case)
    counts, tokens = sampled["num_accepted_drafts"], sampled["output_tokens"]
    require(((counts == 0) | (counts == 1)).all(), "num_accepted_drafts", counts.tolist(), "0 or 1")
    last = tokens[np.arange(len(tokens)), counts]
    is_token = (last >= 0) & (last < case["target_probs"].shape[1])
    require(is_token.all(), "the last tokens", last.tolist(), "tokens")


def equal_laws_accept_every_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's law is the target's own, every possible draft is accepted."""
    laws = case["target_probs"][rows_of_drafts(case)]
    tokens = np.where(case["draft_tokens"] >= 0, laws.argmax(axis=1), -1)
    coins = np.minimum(case["uniform_samples"], np.float32(_SURE))
    agreed = {**case, "draft_probs": laws, "draft_tokens": tokens, "uniform_samples": coins}
    require_all_accepted(sampler, backend, agreed)


def require_all_accepted(sampler: str, backend: Backend, case: Case) -> None:
    """Raise AssertionError unless all drafts before any -1 are accepted."""
    counts = outputs_of(backend, sampler, case)["num_accepted_drafts"]
    expected = [int(np.cumprod(case["draft_tokens"][first:last] >= 0).sum()) for first, last in rows_of(case)]
    require_equal("num_accepted_drafts", counts, expected)


def absent_laws_mean_certain_drafts(sampler: str, backend: Backend, case: Case) -> None:
    """Without the drafts' laws every draft counts as certain."""
    certain = (np.arange(case["target_probs"].shape[1]) == case["draft_tokens"][:, None]).astype(np.float32)
    given = outputs_of(backend, sampler, {**case, "draft_probs": certain})
    absent = outputs_of(backend, sampler, {**case, "draft_probs": None})
    require_equal("output_tokens", absent["output_tokens"], given["output_tokens"])


def a_padded_tail_ends_the_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Drafts padded with -1 give what ragged ones give, whatever stands beside the padding."""
    plain = outputs_of(backend, sampler, case)["output_tokens"]
    got = outputs_of(backend, sampler, padded(case, 2))["output_tokens"]
    require_equal("output_tokens of padded drafts", got[:, : plain.shape[1]], plain)
    require_equal("the rest", got[:, plain.shape[1] :], np.full((len(plain), got.shape[1] - plain.shape[1]), -1))


def rows_after_the_last_token_do_not_matter(sampler: str, backend: Backend, case: Case) -> None:
    """What stands in the rows after the one that the last token is drawn from changes nothing, be it no number."""
    whole, unread = outputs_of(backend, sampler, case), with_copies(case)
    target, draft = sides_of(case)
    for request, (first, last) in enumerate(rows_of(case)):
        count = int(whole["num_accepted_drafts"][request])
        unread[target][first + request + count + 1 : last + request + 1] = np.nan
        if unread[draft] is not None:
            unread[draft][first + count + 1 : last] = np.nan
    require_same(sampler, backend, unread, whole, "beside rows of NaN")


def require_same(sampler: str, backend: Backend, case: Case, expected: Case, how: str) -> None:
    """Raise AssertionError unless a case has the outputs that are expected."""
    got = outputs_of(backend, sampler, case)
    for name in expected:
        require_equal(f"{name} {how}", got[name], expected[name])


def chains_are_sampled_one_by_one(sampler: str, backend: Backend, case: Case) -> None:
    """A request's output is the same alone, and in any order of the batch."""
    whole = outputs_of(backend, sampler, case)
    for requests in arrangements(len(rows_of(case))):
        alone = {name: values[requests] for name, values in whole.items()}
        require_same(sampler, backend, taken(case, requests), alone, f"of batch {requests}")


def final_coin_draws_the_token_after_the_drafts(sampler: str, backend: Backend, case: Case) -> None:
    """Another final coin accepts the same drafts; coins after the first rejection do not matter."""
    before = other_final_coins_accept_the_same_drafts(sampler, backend, case)
    other = with_copies(case)
    for (first, last), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
        other["uniform_samples"][first + count + 1 : last] = 0
    require_same(sampler, backend, other, before, "under other unused coins")


def other_final_coins_accept_the_same_drafts(sampler: str, backend: Backend, case: Case) -> Case:
    """Another final coin accepts the same drafts.

    The outputs under the first one are returned.
    """
    before = outputs_of(backend, sampler, case)
    after = outputs_of(backend, sampler, {**case, FINAL: (1 - COIN_STEP - case[FINAL]).astype(np.float32)})
    require_equal("num_accepted_drafts", after["num_accepted_drafts"], before["num_accepted_drafts"])
    return before


def of_sampler(sampler: str, law: Callable[[str, Backend, Case], object], name: str = "") -> Callable[..., None]:
    """Return a law of all samplers of chains as one of a sampler, under the same name unless there is another."""

    @wraps(law)
    def holds(backend: Backend, case: Case) -> None:
        law(sampler, backend, case)

    holds.__name__ = name or holds.__name__
    return holds


def of_probabilities(
    group: str, sampler: str, chains: Callable[..., SearchStrategy[Case]], *more: tuple[Any, ...]
) -> tuple[Property, ...]:
    """Return what holds of every sampler of chains from probabilities, and laws of one, each with its chains."""
    whole = partial(chains, is_whole=True)
    shared = (
        (equal_laws_accept_every_draft, whole, "P06"),
        (absent_laws_mean_certain_drafts, whole, "P63"),
        (a_padded_tail_ends_the_draft, chains, "P37"),
        (chains_are_sampled_one_by_one, chains, "P31"),
    )
    return states(group, *((of_sampler(sampler, law), drawn, sampler, number) for law, drawn, number in shared), *more)


_chains = chain_speculative_sampling
_whole_chains = partial(_chains, is_whole=True)
_of_chains = partial(of_sampler, CHAIN_SAMPLER)
_possible = _of_chains(drafts_and_one_token_come_out, "chains_output_drafts_and_one_token")
_unread_rows = _of_chains(rows_after_the_last_token_do_not_matter, "rows_behind_the_last_token_do_not_matter")

PROPERTIES = of_probabilities(
    "chains",
    CHAIN_SAMPLER,
    _chains,
    (ratios_decide_as_stated, partial(_chains, is_table=True), CHAIN_SAMPLER, "P08"),
    (_possible, _chains, CHAIN_SAMPLER, "P07"),
    (a_rejection_that_leaves_nothing_draws_a_token, laws_that_round_apart, CHAIN_SAMPLER, "P07"),
    (_unread_rows, _whole_chains, CHAIN_SAMPLER, "P09"),
    (_of_chains(final_coin_draws_the_token_after_the_drafts), _chains, CHAIN_SAMPLER, "P09"),
)
