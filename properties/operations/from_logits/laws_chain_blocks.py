"""Laws of chains from raw logits that are judged as a block: their parts say how, and rows and coins what matters."""

from functools import partial

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, state
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER
from specsim.properties.operations.acceptance.laws_chain_blocks import (
    coins_of_shorter_fronts_do_not_matter,
    rows_that_no_block_reads_do_not_matter,
)
from specsim.properties.operations.acceptance.laws_chains import of_sampler, other_final_coins_accept_the_same_drafts
from specsim.properties.operations.from_logits.laws_chains import require_composed, shared_laws
from specsim.properties.operations.from_logits.logit_chains import BLOCK_FROM_LOGITS
from specsim.properties.operations.from_logits.strategy_chains import chain_block_verification_from_logits


def blocks_are_softmax_filters_and_block(backend: Backend, case: Case) -> None:
    """The outputs are those of the distributions of all rows, each with its own temperature, judged as a block."""
    require_composed(backend, case, BLOCK_FROM_LOGITS, BLOCK_SAMPLER)


_GROUP = "chain_blocks_from_logits"
_BLOCK = (BLOCK_FROM_LOGITS,)
_PARTS = (BLOCK_FROM_LOGITS, "target_probabilities", BLOCK_SAMPLER)
_of_blocks = partial(of_sampler, BLOCK_FROM_LOGITS)
_blocks = chain_block_verification_from_logits
_whole_blocks = partial(_blocks, is_whole=True)

PROPERTIES = (
    state(_GROUP, blocks_are_softmax_filters_and_block, _whole_blocks, _PARTS, "P13"),
    *shared_laws(_GROUP, BLOCK_FROM_LOGITS, _blocks, _whole_blocks),
    state(_GROUP, _of_blocks(rows_that_no_block_reads_do_not_matter), _whole_blocks, _BLOCK, "P09"),
    state(_GROUP, _of_blocks(coins_of_shorter_fronts_do_not_matter), _blocks, _BLOCK, "P09"),
    state(_GROUP, _of_blocks(other_final_coins_accept_the_same_drafts), _blocks, _BLOCK, "P09"),
)
