"""Grammar: which tokens each node of a tree may be followed by."""

from specsim.contracts.contract import Contract, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import RETRIEVE_NEXT_SIBLING, RETRIEVE_NEXT_TOKEN

OPERATIONS = (
    Operation(
        name="generate_token_bitmask",
        group="grammar",
        summary="Walk each tree with its request's grammar and pack the tokens that may follow each reached node.",
        contract=Contract(
            parameters=(
                array("transitions", "int32 [state, vocab]", Unit.STATE, within=("0", "state-1"), sentinel=-1),
                array("is_terminated", "bool [state]", Unit.ANY),
                array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", None)),
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                array("grammar_state", "int32 [request]", Unit.STATE, within=("0", "state-1"), sentinel=-1),
            ),
            outputs=(array("vocab_mask", "int32 [request*node, -(-vocab//32)]", Unit.BITS),),
            requires=(
                Requirement("node >= 1", "a tree has a root"),
                Requirement("vocab >= 1", "a mask is over at least one token"),
                Requirement("state >= 1", "a grammar has a state"),
            ),
        ),
        source="semantics B.5",
    ),
)
