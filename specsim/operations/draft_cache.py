"""Draft cache: the slots that the draft model writes and reads while it drafts."""

from dataclasses import replace

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import NUM_STEPS, PAGE_SIZE, REQ_POOL_INDICES, REQ_TO_TOKEN, TOPK, seq_lens
from specsim.rejection import Reason

_ROWS = (REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens("position-topk*step"))
_PAGE_SIZE = replace(PAGE_SIZE, default=None)

OPERATIONS = (
    Operation(
        name="assign_draft_cache_locs",
        group="draft_cache",
        summary="Read the slots of the draft entries from the request rows, and list the copies that paged beams need.",
        contract=Contract(
            parameters=(
                *_ROWS,
                TOPK,
                NUM_STEPS,
                PAGE_SIZE,
                ScalarSpec("num_copies", low="0", default=0),
            ),
            outputs=(
                array("out_cache_loc", "int64 [request*topk*step]", Unit.SLOT),
                array("source_slots", "int64 [num_copies]", Unit.SLOT),
                array("target_slots", "int64 [num_copies]", Unit.SLOT),
            ),
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
                *_ROWS,
                array("positions", "int64 [request*topk]", Unit.POSITION, within=("0", "position-1")),
                TOPK,
                NUM_STEPS,
                PAGE_SIZE,
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
    Operation(
        name="draft_decode_cascade_metadata",
        group="draft_cache",
        summary="Two passes in whole pages: all beams over the prefix, then every beam over its own pages.",
        contract=Contract(
            parameters=(*_ROWS, TOPK, NUM_STEPS, _PAGE_SIZE, ScalarSpec("max_prefix_len", low="0")),
            outputs=(
                array("cache_seqlens", "int32 [request]", Unit.COUNT),
                array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
                array("page_table", "int32 [request, prefix_page]", Unit.SLOT),
                array("expand_cache_seqlens", "int32 [step, request*topk]", Unit.COUNT),
                array("expand_page_table", "int32 [request*topk, own_page]", Unit.SLOT),
            ),
            derived=(
                ("prefix_page", "max_prefix_len//page_size"),
                ("own_page", "-(-(page_size-1+step)//page_size)"),
            ),
            requires=(
                Requirement(
                    "max_prefix_len <= position", "the page table is read from the request rows", Reason.ROW_TOO_SHORT
                ),
            ),
        ),
        source="semantics A.11b",
    ),
)
