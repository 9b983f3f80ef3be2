"""DFLASH: what a draft of a whole block needs beside the operations of a chain."""

from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import (
    FLOAT_LOGITS,
    MOST_POSITIONS,
    NUM_DRAFT_TOKENS,
    PAGE_SIZE,
    POSITIONS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    seq_lens,
)

_WIDEST = "draft_window+page_size-1+node"

OPERATIONS = (
    Operation(
        name="prepare_block_draft",
        group="dflash",
        summary="Tokens and positions of the block that is drafted at once: the bonus token, then masks.",
        contract=Contract(
            parameters=(
                array("bonus_tokens", "int32|int64 [request]", Unit.TOKEN, within=("0", None)),
                seq_lens(),
                ScalarSpec("mask_token", low="0", high="2**31-1"),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(array("input_ids", "int64 [request*node]", Unit.TOKEN), POSITIONS),
        ),
        source="semantics A.14",
    ),
    Operation(
        name="block_draft_metadata",
        group="dflash",
        summary="The last positions that a block may see of its text, as a private table of their slots.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("position-node"),
                ScalarSpec("draft_window", low="1", high=MOST_POSITIONS),
                NUM_DRAFT_TOKENS,
                PAGE_SIZE,
            ),
            outputs=(
                array("window_starts", "int64 [request]", Unit.POSITION),
                array("cache_seqlens", "int32 [request]", Unit.COUNT),
                array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
                array("page_table", "int32 [request, visible]", Unit.SLOT),
            ),
            derived=(("visible", f"{_WIDEST} if {_WIDEST} < position else position"),),
        ),
        source="semantics A.14b",
    ),
    Operation(
        name="keep_top_k_exactly",
        group="dflash",
        summary="Keep the k largest logits of a row, ties by lower id, unless some request keeps the whole vocabulary.",
        contract=Contract(
            parameters=(
                FLOAT_LOGITS,
                array("top_k", "int32 [request]", Unit.COUNT, within=("1", None)),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(array("filtered_logits", "like logits [request*node, vocab]", Unit.LOGIT),),
            requires=(Requirement("vocab >= 1", "a distribution is over at least one token"),),
        ),
        source="semantics A.14",
    ),
    Operation(
        name="fill_block_tokens",
        group="dflash",
        summary="Shift each block left by one and write the bonus token after its accepted drafts.",
        contract=Contract(
            parameters=(
                array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", None)),
                array("num_accepted_drafts", "int32 [request]", Unit.COUNT, within=("0", "node-1")),
                array("bonus_tokens", "int32|int64 [request]", Unit.TOKEN, within=("0", None)),
            ),
            outputs=(array("out_tokens", "int64 [request, node]", Unit.TOKEN),),
            requires=(Requirement("node >= 1", "a block has a root"),),
        ),
        source="semantics A.14b",
    ),
)
