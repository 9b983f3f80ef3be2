"""Recurrent: which state of a verify is kept, and the copies that keep it."""

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import ACCEPT_INDEX, MOST_POSITIONS, NUM_DRAFT_TOKENS, seq_lens

_STATES, _NODES = ("0", "state-1"), ("0", "node-1")
_REQUEST = "int64 [request]"

OPERATIONS = (
    Operation(
        name="get_recurrent_steps",
        group="recurrent",
        summary="Find the node whose state is committed, and the one whose state is kept for shared prefixes.",
        contract=Contract(
            parameters=(
                ACCEPT_INDEX,
                array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", "draft+1")),
                seq_lens(),
                NUM_DRAFT_TOKENS,
                ScalarSpec("interval", low="0", high=MOST_POSITIONS),
            ),
            outputs=(
                array("commit_step", _REQUEST, Unit.NODE),
                array("snapshot_step", _REQUEST, Unit.NODE, sentinel=-1),
            ),
            requires=(
                Requirement("draft+1 <= node or request == 0", "an accepted path has no more nodes than the tree"),
                Requirement("interval == 0 or interval >= node", "a verify passes one snapshot at most"),
            ),
        ),
        source="semantics C.9",
    ),
    Operation(
        name="commit_recurrent_states",
        group="recurrent",
        summary="Copy of every component the states after two nodes of each request, the last and that of a snapshot.",
        contract=Contract(
            parameters=(
                array("state_buffers", "any [state, ...]", Unit.TAG, each="buffer", defined=Defined("live")),
                array("step_buffers", "like state_buffers [place, node, ...]", Unit.TAG, each="buffer"),
                array("state_slots", _REQUEST, Unit.SLOT, within=_STATES, sentinel=-1),
                array("commit_step", _REQUEST, Unit.NODE, within=_NODES, sentinel=-1),
                array("snapshot_slots", _REQUEST, Unit.SLOT, within=_STATES, sentinel=-1),
                array("snapshot_step", _REQUEST, Unit.NODE, within=_NODES, sentinel=-1),
            ),
            requires=(Requirement("request <= place", "a request has its own place among the steps"),),
            writes=("state_buffers",),
        ),
        source="semantics C.9",
    ),
)
