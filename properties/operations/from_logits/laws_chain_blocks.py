"""Laws of chains from raw logits that are judged as a block: their parts say how, and rows and coins what matters."""

from functools import partial

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require_equal, state
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER
from specsim.properties.operations.acceptance.laws_chain_blocks import with_copies
from specsim.properties.operations.acceptance.laws_chains import of_sampler, other_final_coins_accept_the_same_drafts
from specsim.properties.operations.from_logits import strategy_chains as logit_strategies
from specsim.properties.operations.from_logits.laws_chains import (
    a_column_beyond_the_vocabulary_takes_its_share,
    a_draft_that_its_own_row_forbids_is_rejected,
    a_padded_tail_ends_the_draft,
    a_rejection_that_leaves_nothing_draws_a_possible_token,
    a_temperature_divides_its_own_rows,
    certain_drafts_need_no_rows,
    chains_are_sampled_one_by_one,
    drafts_and_one_possible_token_come_out,
    equal_rows_accept_every_draft,
    equal_rows_emit_a_possible_token,
    forbidden_columns_change_nothing,
    greedy_chains_follow_the_largest_logits,
    require_composed,
    tokens_that_the_draft_lacks_are_forbidden_ones,
)
from specsim.properties.operations.from_logits.logit_chains import BLOCK_FROM_LOGITS, rows_of


def blocks_are_softmax_filters_and_block(backend: Backend, case: Case) -> None:
    """The outputs are those of the distributions of all rows, each with its own temperature, judged as a block."""
    require_composed(backend, case, BLOCK_FROM_LOGITS, BLOCK_SAMPLER)


def rows_that_no_block_reads_do_not_matter(backend: Backend, case: Case) -> None:
    """The row after the drafts where not all are kept, all after a -1, and all after the last of a greedy request."""
    whole = outputs_of(backend, BLOCK_FROM_LOGITS, case)
    unread = with_copies(case)
    for request, (first, last) in enumerate(rows_of(case)):
        count, tokens = int(whole["num_accepted_drafts"][request]), case["draft_tokens"][first:last]
        end = first + int(np.cumprod(tokens >= 0).sum())
        is_greedy = case["temperature"][request] == 0
        num_rows = first + count + 1 if is_greedy else end + int(count == end - first)
        unread["target_logits"][num_rows + request : last + request + 1] = np.nan
        unread["uniform_samples"][end:last] = 0
        if unread["draft_logits"] is not None:
            unread["draft_logits"][first if is_greedy else end : last] = np.nan
    require_same(backend, unread, whole, "beside rows of NaN")


def coins_of_shorter_fronts_do_not_matter(backend: Backend, case: Case) -> None:
    """A coin that fails ends nothing: those before the kept front's own, whatever they are, change nothing."""
    before = outputs_of(backend, BLOCK_FROM_LOGITS, case)
    for coin in (0.0, 1 - 2.0**-24):
        other = with_copies(case)
        for (first, _), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
            other["uniform_samples"][first : first + max(count - 1, 0)] = coin
        require_same(backend, other, before, f"with coins of {coin} before")


def require_same(backend: Backend, case: Case, expected: Case, how: str) -> None:
    """Raise AssertionError unless a case has the outputs that are expected."""
    got = outputs_of(backend, BLOCK_FROM_LOGITS, case)
    for name in expected:
        require_equal(f"{name} {how}", got[name], expected[name])


def _blocks() -> SearchStrategy[Case]:
    return logit_strategies.chain_block_verification_from_logits()


def _whole_blocks() -> SearchStrategy[Case]:
    return logit_strategies.chain_block_verification_from_logits(is_whole=True)


_equal_rows = logit_strategies.rows_that_leave_nothing
_unlikely_drafts = logit_strategies.unlikely_drafts_of_equal_rows

_BLOCK = (BLOCK_FROM_LOGITS,)
_PARTS = (BLOCK_FROM_LOGITS, "target_probabilities", BLOCK_SAMPLER)
_state = partial(state, "chain_blocks_from_logits")
_of_blocks = partial(of_sampler, BLOCK_FROM_LOGITS)

PROPERTIES = (
    _state(blocks_are_softmax_filters_and_block, _whole_blocks, _PARTS, "P13"),
    _state(_of_blocks(drafts_and_one_possible_token_come_out), _blocks, _BLOCK, "P07"),
    _state(_of_blocks(a_draft_that_its_own_row_forbids_is_rejected), _whole_blocks, _BLOCK, "P07"),
    _state(_of_blocks(a_rejection_that_leaves_nothing_draws_a_possible_token), _equal_rows, _BLOCK, "P07"),
    _state(_of_blocks(equal_rows_emit_a_possible_token), _unlikely_drafts, _BLOCK, "P07"),
    _state(_of_blocks(equal_rows_accept_every_draft), _whole_blocks, _BLOCK, "P06"),
    _state(_of_blocks(certain_drafts_need_no_rows), _whole_blocks, _BLOCK, "P63"),
    _state(_of_blocks(greedy_chains_follow_the_largest_logits), _whole_blocks, _BLOCK, "P12"),
    _state(_of_blocks(a_column_beyond_the_vocabulary_takes_its_share), _whole_blocks, _BLOCK, "P13"),
    _state(_of_blocks(a_temperature_divides_its_own_rows), _blocks, _BLOCK, "P13"),
    _state(_of_blocks(forbidden_columns_change_nothing), _blocks, _BLOCK, "P37"),
    _state(_of_blocks(tokens_that_the_draft_lacks_are_forbidden_ones), _whole_blocks, _BLOCK, "P37"),
    _state(_of_blocks(a_padded_tail_ends_the_draft), _blocks, _BLOCK, "P37"),
    _state(rows_that_no_block_reads_do_not_matter, _whole_blocks, _BLOCK, "P09"),
    _state(coins_of_shorter_fronts_do_not_matter, _blocks, _BLOCK, "P09"),
    _state(_of_blocks(chains_are_sampled_one_by_one), _blocks, _BLOCK, "P31"),
    _state(_of_blocks(other_final_coins_accept_the_same_drafts), _blocks, _BLOCK, "P09"),
)
