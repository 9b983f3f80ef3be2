"""Faults in chains from raw logits that are judged as a block: in the laws of rows, and in how they are judged."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, with_arguments
from specsim.properties.operations.acceptance import faults_chain_blocks as blocks
from specsim.properties.operations.from_logits import faults_chains as chains
from specsim.properties.operations.from_logits.faults_chains import draft_law, next_rows, numbers_everywhere, target_law

Array = Any
_BLOCK = "chain_block_verification_from_logits"


def verified(of_rows: chains.Faults, of_blocks: blocks.Faults) -> Callable[..., tuple[Array, Array]]:
    """Return a verifier of blocks from logits that softens all rows first, with the faults of either step.

    A greedy request is one of certain rows, and its drafts are certain too.
    """
    judge = blocks.verified(of_blocks)

    def call(**arguments: Any) -> tuple[Array, Array]:
        coins = ("uniform_samples", "uniform_samples_for_final_sampling")
        names = ("draft_tokens", "cu_num_drafts", *coins, "max_num_drafts")
        with np.errstate(all="ignore"):
            laws = _laws(arguments, of_rows)
            return judge(**{name: arguments[name] for name in names}, **laws)

    return call


def _laws(arguments: Named, faults: chains.Faults) -> Named:
    target, drafts, vocab = list[Array](), list[Array](), arguments["target_logits"].shape[1]
    for request, (first, last) in enumerate(pairwise(arguments["cu_num_drafts"].tolist())):
        tokens = arguments["draft_tokens"][first:last].tolist()
        is_greedy = arguments["temperature"][request] == 0 and not faults.greedy_is_sampled
        ends = tokens.index(-1) if -1 in tokens else len(tokens)
        for place, token in enumerate([*tokens, -1]):
            row = arguments["target_logits"][first + request + place].astype(np.float64)
            law = target_law(arguments, request, row, faults, is_last=place == ends)
            target.append(np.eye(vocab)[int(row.argmax())] if is_greedy else law)
            if place < len(tokens):
                is_certain = is_greedy or token < 0
                law = draft_law(arguments, request, first + place, max(token, 0), vocab, faults)
                drafts.append(np.eye(vocab)[token] if is_certain else law)
    return {
        "target_probs": np.stack(target) if target else np.zeros((0, vocab)),
        "draft_probs": np.stack(drafts) if drafts else np.zeros((0, vocab)),
    }


def _fault_of_rows(number: str, summary: str, **switched_on: bool) -> Mutant:
    right = blocks.Faults(nothing_left_draws_from_the_target=True)
    return Mutant(number, _BLOCK, summary, instead(verified(chains.Faults(**switched_on), right)))


def _fault_of_blocks(number: str, summary: str, **switched_on: bool) -> Mutant:
    faults = blocks.Faults(**{"nothing_left_draws_from_the_target": True, **switched_on})
    return Mutant(number, _BLOCK, summary, instead(verified(chains.Faults(), faults)))


MUTANTS = (
    _fault_of_blocks("OWN-5750", "The last token is drawn from max(p - q, 0), unshifted.", rest_without_share=True),
    _fault_of_blocks("OWN-5751", "The first coin that fails ends the walk.", first_failure_ends=True),
    _fault_of_blocks("OWN-5752", "The first coin that keeps a front ends the walk.", first_success_ends=True),
    _fault_of_blocks("OWN-5753", "The sum of logarithms is not cut at 0.", share_not_cut=True),
    _fault_of_blocks("OWN-5754", "Ratios are cut at 1, and not their product.", ratios_cut_alone=True),
    _fault_of_blocks("OWN-5755", "A front's share is its last ratio alone.", shares_one_by_one=True),
    _fault_of_blocks("OWN-5756", "A draft that its own row forbids keeps the share.", impossible_keeps_the_share=True),
    _fault_of_blocks("OWN-5757", "The share goes on from one request to the next.", share_of_the_batch=True),
    _fault_of_blocks("OWN-5758", "Logarithms of shares are in bfloat16.", logarithm_in_half_precision=True),
    _fault_of_blocks("OWN-5759", "What a front leaves is added up of its own row.", masses_of_own_row=True),
    _fault_of_blocks("OWN-5761", "What a front leaves is its chance.", mass_is_the_chance=True),
    _fault_of_blocks("OWN-5762", "The last token has the share of the next front.", share_of_the_next_front=True),
    _fault_of_blocks("OWN-5763", "The last front is judged like others.", last_front_like_inner=True),
    _fault_of_blocks("OWN-5764", "The last token comes from the row of the last draft.", bonus_of_the_last_draft=True),
    _fault_of_blocks("OWN-5765", "The coin that kept a front also draws.", final_coin_of_the_front=True),
    _fault_of_blocks("OWN-5766", "Target rows are counted like drafts.", rows_of_drafts=True),
    _fault_of_blocks(
        "OWN-5767", "Where nothing is left, the last token is drawn.", nothing_left_draws_from_the_target=False
    ),
    _fault_of_rows("OWN-5768", "Draft logits are not divided by their temperature.", draft_temperature_left_out=True),
    _fault_of_rows("OWN-5769", "Draft logits are divided by the target's.", draft_at_the_targets_temperature=True),
    _fault_of_rows("OWN-5770", "Draft probabilities add up over common tokens.", common_columns_only=True),
    _fault_of_rows("OWN-5771", "Filters come before the temperature.", filters_before_temperature=True),
    _fault_of_rows("OWN-5772", "Only the row after all drafts is filtered.", filters_on_the_last_row_only=True),
    _fault_of_rows("OWN-5773", "Greedy requests are sampled at temperature 1.", greedy_is_sampled=True),
    _fault_of_rows("OWN-5774", "Low temperatures are raised.", temperature_is_clamped=True),
    Mutant("OWN-5775", _BLOCK, "Rows that no block reads must be numbers as well.", given(numbers_everywhere)),
    Mutant("OWN-5776", _BLOCK, "A draft is judged by the row of the next one.", given(next_rows)),
    Mutant("OWN-5777", _BLOCK, "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
)
