"""Extend: the inputs with which the draft model catches up."""

from specsim.contract import Contract, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import NUM_DRAFT_TOKENS, POSITIONS, seq_lens

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
)
