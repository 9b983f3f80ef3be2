"""Laws of chains that are judged as a block: any front's own coin keeps it, and what its share leaves is drawn from."""

from functools import partial

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER
from specsim.properties.operations.acceptance.chains import rows_of, sides_of, taken, with_copies
from specsim.properties.operations.acceptance.decided import decide_block, decide_chain
from specsim.properties.operations.acceptance.laws_chains import (
    drafts_and_one_token_come_out,
    of_probabilities,
    of_sampler,
    other_final_coins_accept_the_same_drafts,
    require_decided,
    require_same,
)
from specsim.properties.operations.acceptance.strategy_chains import (
    chain_block_verification,
    chain_speculative_sampling,
)


def fronts_decide_as_stated(backend: Backend, case: Case) -> None:
    """On exact rows the longest front whose coin is below its chance is kept; the rest of its share is drawn from."""
    require_decided(BLOCK_SAMPLER, backend, case, decide_block)


def a_block_of_one_draft_is_judged_as_a_chain_is(backend: Backend, case: Case) -> None:
    """One draft is accepted if coin * q < p and q > 0, and the next token comes from max(p - q, 0) or p."""
    is_first = np.isin(np.arange(len(case["draft_tokens"])), case["cu_num_drafts"])
    single = {**case, "draft_tokens": np.where(is_first, case["draft_tokens"], -1)}
    require_decided(BLOCK_SAMPLER, backend, single, decide_chain)


def rows_that_no_block_reads_do_not_matter(sampler: str, backend: Backend, case: Case) -> None:
    """Rows that no block reads change nothing.

    These are the row after the drafts where not all are kept, all after a -1, and all after the last one of a greedy
    request.
    """
    whole, unread = outputs_of(backend, sampler, case), with_copies(case)
    target, draft = sides_of(case)
    for request, (first, last) in enumerate(rows_of(case)):
        count, tokens = int(whole["num_accepted_drafts"][request]), case["draft_tokens"][first:last]
        end = first + int(np.cumprod(tokens >= 0).sum())
        is_greedy = "temperature" in case and case["temperature"][request] == 0
        num_rows = first + count + 1 if is_greedy else end + int(count == end - first)
        unread[target][num_rows + request : last + request + 1] = np.nan
        unread["uniform_samples"][end:last] = 0
        if unread[draft] is not None:
            unread[draft][first if is_greedy else end : last] = np.nan
    require_same(sampler, backend, unread, whole, "beside rows of NaN")


def a_cut_block_is_that_of_its_first_drafts(backend: Backend, case: Case) -> None:
    """Drafts that are not verified take no part: a block cut by -1 is that of its first drafts, rows of others NaN."""
    ends = [first + (last - first + 1) // 2 for first, last in rows_of(case)]
    cut = with_copies(case)
    for request, ((_, last), end) in enumerate(zip(rows_of(case), ends, strict=True)):
        cut["draft_tokens"][end : min(end + 1, last)] = -1
        cut["target_probs"][end + request + 1 : last + request + 1] = np.nan
        if cut["draft_probs"] is not None:
            cut["draft_probs"][end:last] = np.nan
    short = outputs_of(backend, BLOCK_SAMPLER, taken(case, range(len(ends)), ends))
    require_same(BLOCK_SAMPLER, backend, cut, short, "of drafts that are cut")


def coins_of_shorter_fronts_do_not_matter(sampler: str, backend: Backend, case: Case) -> None:
    """A coin that fails ends nothing: those before the kept front's own, whatever they are, change nothing."""
    before = outputs_of(backend, sampler, case)
    for coin in (0.0, 1 - 2.0**-24):
        other = with_copies(case)
        for (first, _), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
            other["uniform_samples"][first : first + max(count - 1, 0)] = coin
        require_same(sampler, backend, other, before, f"with coins of {coin} before")


_blocks = chain_block_verification
_whole_blocks = partial(_blocks, is_whole=True)
_exact_drafts = partial(chain_speculative_sampling, is_table=True, is_whole=True)
_of_blocks = partial(of_sampler, BLOCK_SAMPLER)
_possible = _of_blocks(drafts_and_one_token_come_out, "blocks_output_drafts_and_one_token")
_final_coin = _of_blocks(other_final_coins_accept_the_same_drafts, "final_coin_draws_the_token_after_the_block")

PROPERTIES = of_probabilities(
    "chain_blocks",
    BLOCK_SAMPLER,
    _blocks,
    (fronts_decide_as_stated, partial(_blocks, is_table=True), BLOCK_SAMPLER, "P08"),
    (a_block_of_one_draft_is_judged_as_a_chain_is, _exact_drafts, BLOCK_SAMPLER, "P08"),
    (_possible, _blocks, BLOCK_SAMPLER, "P07"),
    (_of_blocks(rows_that_no_block_reads_do_not_matter), _whole_blocks, BLOCK_SAMPLER, "P09"),
    (a_cut_block_is_that_of_its_first_drafts, _whole_blocks, BLOCK_SAMPLER, "P37"),
    (_of_blocks(coins_of_shorter_fronts_do_not_matter), _blocks, BLOCK_SAMPLER, "P09"),
    (_final_coin, _blocks, BLOCK_SAMPLER, "P09"),
)
