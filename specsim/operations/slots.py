"""Slots: write and read ranges of the request-to-token map."""

from specsim.contract import Contract, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import REQ_POOL_INDICES, REQ_TO_TOKEN

_START = array("start_offsets", "int64|int32 [request]", Unit.POSITION, within=("0", "position"))
_END = array("end_offsets", "int64|int32 [request]", Unit.POSITION, within=("0", "position"))

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
                array("out_cache_loc", "int64 [location]", Unit.SLOT, within=("0", "2**31-1")),
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
)
