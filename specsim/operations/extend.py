"""Extend: the inputs with which the draft model catches up."""

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import (
    MOST_POSITIONS,
    NUM_DRAFT_TOKENS,
    POSITIONS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    seq_lens,
)
from specsim.rejection import Reason

OPERATIONS = (
    Operation(
        name="rotate_prefill_input_ids",
        group="extend",
        summary="Shift each prompt left by one and append its tail token: the draft model's prefill input.",
        contract=Contract(
            parameters=(
                array("input_ids", "int64 [token]", Unit.TOKEN, within=("0", None)),
                array("extend_lens", "int32 [request]", Unit.COUNT, within=("1", "token")),
                array("tail_tokens", "int64 [request]", Unit.TOKEN, within=("0", None)),
            ),
            outputs=(array("rotated_input_ids", "int64 [token]", Unit.TOKEN),),
        ),
        source="semantics D.7",
    ),
    Operation(
        name="prepare_for_extend_to_fill_draft_kvcache",
        group="extend",
        summary="Positions, forward lengths and the selected row of a fixed-width draft-extend.",
        contract=Contract(
            parameters=(
                seq_lens(),
                array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", "node")),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(
                POSITIONS,
                array("forward_seq_lens", "int64 [request]", Unit.COUNT),
                array("select_index", "int64 [request]", Unit.NODE),
            ),
        ),
        source="semantics D.6",
    ),
    Operation(
        name="create_extend_after_decode_spec_info",
        group="extend",
        summary="Positions of a ragged draft-extend, and each request's last token, from which the next draft starts.",
        contract=Contract(
            parameters=(
                array("input_ids", "int64 [token]", Unit.TOKEN, within=("0", "2**31-1")),
                array("seq_lens", "int64|int32 [request]", Unit.COUNT, within=("1", MOST_POSITIONS)),
                array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", "token")),
            ),
            outputs=(
                array("positions", "int64 [token]", Unit.POSITION),
                array("bonus_tokens", "int32 [request]", Unit.TOKEN),
            ),
        ),
        source="semantics D.3, sglang #24859",
    ),
    Operation(
        name="generate_attn_arg_prefill",
        group="extend",
        summary="Attention metadata of a ragged draft-extend: the queries of each request, and the slots they see.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                array(
                    "kv_lens",
                    "int64|int32 [request]",
                    Unit.COUNT,
                    within=("0", "position"),
                    reason=Reason.ROW_TOO_SHORT,
                ),
                array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", None)),
                ScalarSpec("kv_lens_sum", axis="location", low="0"),
            ),
            outputs=(
                array("qo_indptr", "int32 [request+1]", Unit.OFFSET),
                array("kv_indptr", "int32 [request+1]", Unit.OFFSET),
                array("kv_indices", "int32 [location]", Unit.SLOT, defined=Defined("length", "sum_kv_lens")),
            ),
            requires=(Requirement("location < 2**31", "kv_indptr counts in int32", Reason.SCALAR_OUT_OF_RANGE),),
        ),
        source="semantics D.4, sglang #23962",
    ),
)
