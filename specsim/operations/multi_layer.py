"""Multi-layer drafts: a small draft layer a step, each with KV and a window of its own."""

from specsim.contracts.contract import Contract, Defined, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import MOST_POSITIONS, REQ_POOL_INDICES, REQ_TO_TOKEN

_IDS = array("input_ids", "int64 [token]", Unit.TOKEN, within=("0", None))
_HIDDEN = array("hidden_states", "any [token, ...]", Unit.TAG)
_STARTS = array("extend_start_loc", "int32 [request]", Unit.OFFSET, within=("0", "token"))
_POOL = "like hidden_states [row, kept, ...]"


OPERATIONS = (
    Operation(
        name="rotate_input_ids",
        group="multi_layer",
        summary="Shift the ids of each request left by one, and write its next token at the end or at a given place.",
        contract=Contract(
            parameters=(
                _IDS,
                _STARTS,
                array("extend_seq_lens", "int32 [request]", Unit.COUNT, within=("0", "token")),
                array("next_tokens", "int64 [request]", Unit.TOKEN, within=("0", None)),
                array("select_index", "int64 [request]", Unit.OFFSET, within=("0", "token"), optional=True),
            ),
            writes=("input_ids",),
        ),
        source="semantics E.4",
    ),
    Operation(
        name="assign_new_state",
        group="multi_layer",
        summary="Grow each window by the position before it, and write the token that the layer has proposed.",
        contract=Contract(
            parameters=(
                _IDS,
                array("positions", "int64 [token]", Unit.POSITION, within=("0", MOST_POSITIONS)),
                array("out_cache_loc", "int64 [token]", Unit.SLOT, within=("0", None)),
                _HIDDEN,
                _STARTS,
                array("extend_seq_lens", "int32 [request]", Unit.COUNT, within=("1", "token")),
                array("next_tokens", "int64 [request]", Unit.TOKEN, within=("0", None)),
                array("num_padding", "int32 [request]", Unit.COUNT, within=("0", "token")),
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                array("forward_seq_lens", "int64 [request]", Unit.COUNT, within=("0", "position")),
                array("hidden_states_pool", _POOL, Unit.TAG),
                ScalarSpec("draft_layer", low="0", high="kept-1"),
            ),
            outputs=(
                array("next_input_ids", "int64 [token+request]", Unit.TOKEN),
                array("next_positions", "int64 [token+request]", Unit.POSITION),
                array("next_out_cache_loc", "int64 [token+request]", Unit.SLOT),
                array("next_hidden_states", "like hidden_states [token+request, ...]", Unit.TAG),
                array("next_extend_start_loc", "int32 [request]", Unit.OFFSET),
                array("next_extend_seq_lens", "int32 [request]", Unit.COUNT),
            ),
        ),
        source="semantics E.4",
    ),
    Operation(
        name="assign_hidden_states_pool",
        group="multi_layer",
        summary="Append the hidden states of committed positions to those that wait for the next windows.",
        contract=Contract(
            parameters=(
                _HIDDEN,
                _STARTS,
                array("num_committed", "int32 [request]", Unit.COUNT, within=("0", "token")),
                REQ_POOL_INDICES,
                array("hidden_states_pool", _POOL, Unit.TAG, defined=Defined("live")),
            ),
            writes=("hidden_states_pool",),
        ),
        source="semantics E.4",
    ),
)
