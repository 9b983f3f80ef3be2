"""Draft cache: the slots that the draft model writes and reads while it drafts."""

from specsim.contracts.contract import Contract, Defined, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import NUM_STEPS, REQ_POOL_INDICES, REQ_TO_TOKEN, TOPK, seq_lens

OPERATIONS = (
    Operation(
        name="assign_draft_cache_locs",
        group="draft_cache",
        summary="Read the slots of the draft entries from the request rows, contiguous layout.",
        contract=Contract(
            parameters=(REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens("position-topk*step"), TOPK, NUM_STEPS),
            outputs=(array("out_cache_loc", "int64 [request*topk*step]", Unit.SLOT),),
        ),
        source="semantics A.9, sglang #26997 (assign_draft_cache_locs_page_size_1)",
    ),
    Operation(
        name="per_step_draft_out_cache_loc",
        group="draft_cache",
        summary="Turn request-major draft slots into one row a step.",
        contract=Contract(
            parameters=(
                array("out_cache_loc", "int64 [request*topk*step]", Unit.SLOT, within=("0", None)),
                TOPK,
                NUM_STEPS,
            ),
            outputs=(array("step_cache_loc", "int64 [step, request*topk]", Unit.SLOT),),
        ),
        source="semantics A.10",
    ),
    Operation(
        name="generate_draft_decode_kv_indices",
        group="draft_cache",
        summary="List, for every step and beam, the slots that the beam attends to: the prefix and its own entries.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("position-topk*step"),
                array("positions", "int64 [request*topk]", Unit.POSITION, within=("0", "position-1")),
                TOPK,
                NUM_STEPS,
            ),
            outputs=(
                array(
                    "kv_indices", "int32 [step, request*topk*position]", Unit.SLOT, defined=Defined("rows", "kv_indptr")
                ),
                array("kv_indptr", "int32 [step, request*topk+1]", Unit.OFFSET),
            ),
            requires=(Requirement("request*topk*position < 2**31", "kv_indptr counts in int32"),),
        ),
        source="semantics A.11",
    ),
)
