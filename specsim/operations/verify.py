"""Verify: attention metadata of the target forward, and acceptance."""

from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import (
    ACCEPT_INDEX,
    CU_NUM_DRAFTS,
    MAX_NUM_DRAFTS,
    NUM_ACCEPTED_DRAFTS,
    PAGE_SIZE,
    PREDICT,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    VERIFY_DEPTH,
    seq_lens,
)
from specsim.rejection import Reason

OPERATIONS = (
    Operation(
        name="target_verify_metadata",
        group="verify",
        summary="Lengths and page table of a verify forward; tokens per request are derived, not configured.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("max_seq_len_k-tokens_per_request"),
                ScalarSpec("num_tokens", low="0"),
                ScalarSpec("max_seq_len_k", low="0"),
                PAGE_SIZE,
            ),
            outputs=(
                array("cache_seqlens", "int32 [request]", Unit.COUNT),
                array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
                array("cu_seqlens_k", "int32 [request+1]", Unit.OFFSET),
                array("page_table", "int32 [request, -(-max_seq_len_k//page_size)]", Unit.SLOT),
            ),
            derived=(("tokens_per_request", "num_tokens//request if request > 0 else 0"),),
            requires=(
                Requirement(
                    "num_tokens == tokens_per_request*request",
                    "every request verifies the same number of tokens",
                    Reason.NOT_DIVISIBLE,
                ),
                Requirement(
                    "max_seq_len_k <= position", "the page table is read from the request rows", Reason.ROW_TOO_SHORT
                ),
            ),
        ),
        source="semantics B.3, sglang #25681",
    ),
    Operation(
        name="argmax_target_predict",
        group="verify",
        summary="The target's greedy choice of every row, ties by lower id.",
        contract=Contract(
            parameters=(array("logits", "int64|float32 [token, vocab]", Unit.LOGIT),),
            outputs=(array("target_predict", "int64 [token]", Unit.TOKEN),),
            requires=(Requirement("vocab >= 1", "an empty vocabulary has no largest logit"),),
        ),
        source="semantics B.6",
    ),
    Operation(
        name="verify_tree_greedy",
        group="verify",
        summary="Walk each tree along the target's greedy choices and record the accepted path.",
        contract=Contract(
            parameters=(
                array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", None)),
                RETRIEVE_INDEX,
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                array("target_predict", "int64 [request, node]", Unit.TOKEN, within=("0", "2**31-1")),
                VERIFY_DEPTH,
            ),
            outputs=(PREDICT, ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS),
            requires=(Requirement("node >= 1", "a tree has a root"),),
        ),
        source="semantics B.6",
    ),
    Operation(
        name="verify_chain_greedy",
        group="verify",
        summary="Accept ragged chains as long as each draft is the target's greedy choice.",
        contract=Contract(
            parameters=(
                array("draft_tokens", "int64 [drafted]", Unit.TOKEN, within=("0", None), sentinel=-1),
                CU_NUM_DRAFTS,
                array("target_predict", "int64 [drafted+request]", Unit.TOKEN, within=("0", "2**31-1")),
                MAX_NUM_DRAFTS,
            ),
            outputs=(
                array("output_tokens", "int32 [request, draft+1]", Unit.TOKEN, within=("0", None), sentinel=-1),
                NUM_ACCEPTED_DRAFTS,
            ),
        ),
        source="semantics B.6",
    ),
)
