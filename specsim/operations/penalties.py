"""Penalties: what the tokens of a request, and those on the way to a node, do to the node's logits."""

from specsim.contracts.contract import ArraySpec, Contract, Requirement, Unit, array, flag
from specsim.operations.record import Operation
from specsim.operations.shared import FLOAT_LOGITS, NUM_DRAFT_TOKENS

_MOST_COUNTED = "2**24-1024"
"""With the tokens of a path added, a count is exact in float32."""


def _of_request(name: str) -> ArraySpec:
    return array(name, "float32 [request]", Unit.ANY)


OPERATIONS = (
    Operation(
        name="apply_penalties",
        group="penalties",
        summary="Penalise the tokens that a request has output, and in exact mode those on the path to each node too.",
        contract=Contract(
            parameters=(
                FLOAT_LOGITS,
                array("token_counts", "int32 [request, vocab]", Unit.COUNT, within=("0", _MOST_COUNTED)),
                array("draft_token", "int64 [request*node]", Unit.TOKEN, within=("0", "vocab-1")),
                array("tree_mask", "bool [request*node*node]", Unit.VISIBLE),
                _of_request("frequency_penalty"),
                _of_request("presence_penalty"),
                _of_request("repetition_penalty"),
                NUM_DRAFT_TOKENS,
                flag("exact", True),
            ),
            outputs=(array("penalised_logits", "float32 [request*node, vocab]", Unit.LOGIT),),
            requires=(Requirement("vocab >= 1", "a node has at least one token to choose from"),),
        ),
        source="semantics B.4",
    ),
)
