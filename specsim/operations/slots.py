"""Slots: write and read ranges of the request-to-token map."""

from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import ACCEPT_INDEX, REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens

_START = array("start_offsets", "int64|int32 [request]", Unit.POSITION, within=("0", "position"))
_END = array("end_offsets", "int64|int32 [request]", Unit.POSITION, within=("0", "position"))

_WRITABLE_SLOT = ("0", "2**31-1")
"""The request-to-token map holds int32."""

OPERATIONS = (
    Operation(
        name="assign_req_to_token_pool",
        group="slots",
        summary="Write flat slots into a range of each request's row.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                _START,
                _END,
                array("out_cache_loc", "int64 [location]", Unit.SLOT, within=_WRITABLE_SLOT),
            ),
            writes=("req_to_token",),
        ),
        source="semantics B.2",
    ),
    Operation(
        name="assign_extend_cache_locs",
        group="slots",
        summary="Read a range of each request's row into flat slots.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                _START,
                _END,
                ScalarSpec("num_locations", axis="location", low="0"),
            ),
            outputs=(array("out_cache_loc", "int64 [location]", Unit.SLOT),),
        ),
        source="semantics B.2",
    ),
    Operation(
        name="remap_accepted_slots",
        group="slots",
        summary="Point each request's next positions at the slots of its accepted nodes, and mark the other slots.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("position-1"),
                array("out_cache_loc", "int64 [request*node]", Unit.SLOT, within=_WRITABLE_SLOT),
                ACCEPT_INDEX,
            ),
            outputs=(array("evict_mask", "bool [request*node]", Unit.VISIBLE),),
            requires=(
                Requirement("draft+1 <= node or request == 0", "an accepted path has no more nodes than the tree"),
            ),
            writes=("req_to_token",),
        ),
        source="semantics C.7",
    ),
)
