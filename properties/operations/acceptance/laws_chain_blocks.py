"""Laws of chains that are judged as a block: any front's own coin keeps it, and what its share leaves is drawn from."""

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require, require_equal, state
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER
from specsim.properties.operations.acceptance import strategy_chains as chain_strategies
from specsim.properties.operations.acceptance.decided import Decide, chain_of, decide_block, decide_chain
from specsim.properties.operations.acceptance.laws_chains import (
    a_padded_tail_ends_the_draft,
    absent_laws_mean_certain_drafts,
    chains_are_sampled_one_by_one,
    equal_laws_accept_every_draft,
    of_sampler,
    other_final_coins_accept_the_same_drafts,
    require_possible_drafts,
    rows_of,
    taken,
)
from specsim.properties.operations.acceptance.strategy_chains import shares_of_fronts

_ROUNDED = 2.0**-18
"""By so much of it a product in single precision may be off."""


def fronts_decide_as_stated(backend: Backend, case: Case) -> None:
    """On exact rows the longest front whose coin is below its chance is kept; the rest of its share is drawn from."""
    require_decided(backend, case, decide_block)


def a_block_of_one_draft_is_judged_as_a_chain_is(backend: Backend, case: Case) -> None:
    """One draft is accepted if coin * q < p and q > 0, and the next token comes from max(p - q, 0) or p."""
    place = np.arange(len(case["draft_tokens"]))
    is_first = np.isin(place, case["cu_num_drafts"])
    single = {**case, "draft_tokens": np.where(is_first, case["draft_tokens"], -1)}
    require_decided(backend, single, decide_chain)


def require_decided(backend: Backend, case: Case, decide: Decide) -> None:
    """Raise AssertionError unless the outputs are what is decided, wherever that is exact."""
    sampled = outputs_of(backend, BLOCK_SAMPLER, case)
    for request in range(len(rows_of(case))):
        decided = decide(case, request)
        if decided.is_exact:
            padding = [-1] * (case["max_num_drafts"] + 1 - len(decided.tokens))
            require_equal(f"output {request}", sampled["output_tokens"][request], [*decided.tokens, *padding])
            require_equal("num_accepted_drafts", sampled["num_accepted_drafts"][request], len(decided.tokens) - 1)


def blocks_output_drafts_and_one_token(backend: Backend, case: Case) -> None:
    """The output is a prefix of the drafts before any -1, and one token; nothing impossible is kept or drawn."""
    sampled = outputs_of(backend, BLOCK_SAMPLER, case)
    for request in range(len(rows_of(case))):
        count, output = require_possible_drafts(sampled, case, request)
        tokens, target, proposal = chain_of(case, request)
        place = np.arange(count)
        require((proposal[place, tokens[:count]] > 0).all(), "the kept drafts", tokens[:count].tolist(), "drawn ones")
        wanted, spent = target[count], np.zeros_like(target[count])
        if count < len(tokens):
            wanted, spent = shares_of_fronts(tokens, target, proposal)[count] * wanted, proposal[count]
        if (wanted > spent * (1 + _ROUNDED)).any():
            left = (wanted * (1 + _ROUNDED) - spent)[output[count]]
            require(left > 0, "the rest of the last token, rounded up", left, "above 0")


def rows_that_no_block_reads_do_not_matter(backend: Backend, case: Case) -> None:
    """What stands in the row after the drafts where not all are kept, and in all rows after a -1, changes nothing."""
    whole = outputs_of(backend, BLOCK_SAMPLER, case)
    unread = with_copies(case)
    for request, (first, last) in enumerate(rows_of(case)):
        end = first + len(chain_of(case, request)[0])
        is_whole = whole["num_accepted_drafts"][request] == end - first
        unread["target_probs"][end + request + int(is_whole) : last + request + 1] = np.nan
        unread["uniform_samples"][end:last] = 0
        if unread["draft_probs"] is not None:
            unread["draft_probs"][end:last] = np.nan
    require_same(backend, unread, whole, "beside rows of NaN")


def a_cut_block_is_that_of_its_first_drafts(backend: Backend, case: Case) -> None:
    """Drafts that are not verified take no part: a block cut by -1 is that of its first drafts, rows of others NaN."""
    ends = [first + (last - first + 1) // 2 for first, last in rows_of(case)]
    cut = with_copies(case)
    for request, ((_, last), end) in enumerate(zip(rows_of(case), ends, strict=True)):
        cut["draft_tokens"][end : min(end + 1, last)] = -1
        cut["target_probs"][end + request + 1 : last + request + 1] = np.nan
        if cut["draft_probs"] is not None:
            cut["draft_probs"][end:last] = np.nan
    short = taken(case, range(len(ends)), ends)
    require_same(backend, cut, outputs_of(backend, BLOCK_SAMPLER, short), "of drafts that are cut")


def coins_of_shorter_fronts_do_not_matter(backend: Backend, case: Case) -> None:
    """A coin that fails ends nothing: those before the kept front's own, whatever they are, change nothing."""
    before = outputs_of(backend, BLOCK_SAMPLER, case)
    for coin in (0.0, 1 - 2.0**-24):
        other = with_copies(case)
        for (first, _), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
            other["uniform_samples"][first : first + max(count - 1, 0)] = coin
        require_same(backend, other, before, f"with coins of {coin} before")


def final_coin_draws_the_token_after_the_block(backend: Backend, case: Case) -> None:
    """Another final coin keeps the same drafts."""
    other_final_coins_accept_the_same_drafts(BLOCK_SAMPLER, backend, case)


def with_copies(case: Case) -> Case:
    """Return the case with arrays of its own."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}


def require_same(backend: Backend, case: Case, expected: Case, how: str) -> None:
    """Raise AssertionError unless a case has the outputs that are expected."""
    got = outputs_of(backend, BLOCK_SAMPLER, case)
    for name in expected:
        require_equal(f"{name} {how}", got[name], expected[name])


def _blocks() -> SearchStrategy[Case]:
    return chain_strategies.chain_block_verification()


def _whole_blocks() -> SearchStrategy[Case]:
    return chain_strategies.chain_block_verification(is_whole=True)


def _exact_blocks() -> SearchStrategy[Case]:
    return chain_strategies.chain_block_verification(is_table=True)


def _exact_drafts() -> SearchStrategy[Case]:
    return chain_strategies.chain_speculative_sampling(is_table=True, is_whole=True)


_BLOCK = (BLOCK_SAMPLER,)


PROPERTIES = (
    state("chain_blocks", fronts_decide_as_stated, _exact_blocks, _BLOCK, "P08"),
    state("chain_blocks", a_block_of_one_draft_is_judged_as_a_chain_is, _exact_drafts, _BLOCK, "P08"),
    state("chain_blocks", blocks_output_drafts_and_one_token, _blocks, _BLOCK, "P07"),
    state("chain_blocks", of_sampler(BLOCK_SAMPLER, equal_laws_accept_every_draft), _whole_blocks, _BLOCK, "P06"),
    state("chain_blocks", of_sampler(BLOCK_SAMPLER, absent_laws_mean_certain_drafts), _whole_blocks, _BLOCK, "P63"),
    state("chain_blocks", of_sampler(BLOCK_SAMPLER, a_padded_tail_ends_the_draft), _blocks, _BLOCK, "P37"),
    state("chain_blocks", rows_that_no_block_reads_do_not_matter, _whole_blocks, _BLOCK, "P09"),
    state("chain_blocks", a_cut_block_is_that_of_its_first_drafts, _whole_blocks, _BLOCK, "P37"),
    state("chain_blocks", coins_of_shorter_fronts_do_not_matter, _blocks, _BLOCK, "P09"),
    state("chain_blocks", of_sampler(BLOCK_SAMPLER, chains_are_sampled_one_by_one), _blocks, _BLOCK, "P31"),
    state("chain_blocks", final_coin_draws_the_token_after_the_block, _blocks, _BLOCK, "P09"),
)
