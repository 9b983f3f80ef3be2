"""Frozen-KV: what a draft that reads the target's KV is given, and which row of a verify it starts from."""

from specsim.contracts.contract import Contract, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import TOPK, seq_lens

OPERATIONS = (
    Operation(
        name="prepare_for_frozen_kv_draft",
        group="frozen_kv",
        summary="Rows, lengths and positions of a draft that reads the target's KV, one copy a beam.",
        contract=Contract(
            parameters=(
                array("req_pool_indices", "int64 [request]", Unit.ROW, within=("0", None)),
                seq_lens(),
                TOPK,
            ),
            outputs=(
                array("beam_req_pool_indices", "int64 [request*topk]", Unit.ROW),
                array("beam_seq_lens", "int64 [request*topk]", Unit.COUNT),
                array("positions", "int64 [request*topk]", Unit.POSITION),
            ),
        ),
        source="semantics D.11",
    ),
    Operation(
        name="select_last_verified",
        group="frozen_kv",
        summary="The row of each request's last token among the ragged rows of a verify.",
        contract=Contract(
            parameters=(array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", None)),),
            outputs=(array("select_index", "int64 [request]", Unit.NODE),),
        ),
        source="semantics D.11",
    ),
)
