"""Model: the forward of a draft without KV. It adds up the target's own entries and knows what they should come to."""

from specsim.config import MOST_NODES
from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import HAS_CONTEXT_WORD, HIDDEN_STATES

OPERATIONS = (
    Operation(
        name="frozen_kv_draft_forward",
        group="frozen_forwards",
        summary="The draft model over one new token a beam, whose layers read the target's KV and write none.",
        contract=Contract(
            parameters=(
                array("kv_buffers", "int64 [slot, 4]", Unit.TAG, each="2*layer"),
                array("input_ids", "int64 [token]", Unit.TOKEN, within=("0", None)),
                HIDDEN_STATES,
                array("positions", "int64 [token]", Unit.POSITION, within=("0", None)),
                array(
                    "kv_indices",
                    "int32 [index]",
                    Unit.SLOT,
                    within=("0", "slot-1"),
                    defined=Defined("rows", "kv_indptr"),
                ),
                array("kv_indptr", "int32 [token+1]", Unit.OFFSET, within=("0", "index")),
                array("target_layers", "int64 [layer]", Unit.COUNT, within=("0", "hidden-2")),
                ScalarSpec("depth", low="1", high=str(MOST_NODES)),
            ),
            outputs=(
                array("next_hidden_states", "int64 [token, hidden]", Unit.TAG),
                array("foreseen_hidden_states", "int64 [token, hidden]", Unit.TAG),
                array("context", "int64 [token]", Unit.TAG),
            ),
            requires=(Requirement("layer >= 1", "a forward needs at least one layer"), HAS_CONTEXT_WORD),
        ),
        source="semantics D.11, tagged KV",
    ),
)
