"""Sampled verify: the target's own draw of every row, which drafts are compared with."""

from specsim.contracts.contract import Contract, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import FLOAT_LOGITS, filters
from specsim.rejection import Reason

OPERATIONS = (
    Operation(
        name="sample_target_predict",
        group="sampled_verify",
        summary="Draw a token from every row by a race on the noise of the request's seed and the token's position.",
        contract=Contract(
            parameters=(
                FLOAT_LOGITS,
                *filters(),
                array("seeds", "int64 [request]", Unit.ANY, within=("0", "2**63-1")),
                array(
                    "positions",
                    "int64 [request, node]",
                    Unit.POSITION,
                    within=("0", "2**32-2"),
                    reason=Reason.COUNT_OUT_OF_RANGE,
                ),
            ),
            outputs=(array("target_predict", "int64 [request, node]", Unit.TOKEN, within=("0", "vocab-1")),),
            requires=(
                Requirement("node >= 1", "a tree has a root"),
                Requirement("vocab >= 1", "a token is drawn from at least one"),
            ),
        ),
        source="semantics Q.2, Q.3",
    ),
)
