"""Probabilities: from raw logits to the target's distribution of every row."""

from specsim.contracts.contract import ArraySpec, Contract, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import FLOAT_LOGITS, NUM_DRAFT_TOKENS, filters

_PROBABILITIES = array("probabilities", "float32 [token, vocab]", Unit.PROBABILITY, within=("0", None))
_NEEDS_A_TOKEN = Requirement("vocab >= 1", "a distribution is over at least one token")


def _renormalised(name: str) -> ArraySpec:
    return array(name, "float32 [token, vocab]", Unit.PROBABILITY, within=("0", "1"))


def _of_request(name: str) -> ArraySpec:
    return array(name, "float32 [request, vocab]", Unit.LOGIT, optional=True)


OPERATIONS = (
    Operation(
        name="prepare_logits",
        group="probabilities",
        summary="Apply the additive and the scaling penalty, bias and grammar mask, in this order, to every request.",
        contract=Contract(
            parameters=(
                FLOAT_LOGITS,
                array("scaling_penalty", "float32 [request, vocab]", Unit.ANY, optional=True),
                _of_request("additive_penalty"),
                _of_request("logit_bias"),
                array("vocab_mask", "int32 [request*node, -(-vocab//32)]", Unit.BITS, optional=True),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(array("prepared_logits", "float32 [request*node, vocab]", Unit.LOGIT),),
            requires=(_NEEDS_A_TOKEN,),
        ),
        source="semantics B.4",
    ),
    Operation(
        name="top_k_renorm",
        group="probabilities",
        summary="Keep the k most probable tokens of a row, ties at the threshold included, and renormalise.",
        contract=Contract(
            parameters=(_PROBABILITIES, array("top_k", "int32 [token]", Unit.COUNT, within=("1", None))),
            outputs=(_renormalised("renormalised"),),
            requires=(_NEEDS_A_TOKEN,),
        ),
        source="semantics B.7",
    ),
    Operation(
        name="top_p_renorm",
        group="probabilities",
        summary="Keep the most probable tokens whose mass reaches p, ties at the threshold included, and renormalise.",
        contract=Contract(
            parameters=(
                _PROBABILITIES,
                array("top_p", "float32 [token]", Unit.PROBABILITY, within=("0", "1")),
            ),
            outputs=(_renormalised("renormalised"),),
            requires=(_NEEDS_A_TOKEN,),
        ),
        source="semantics B.7",
    ),
    Operation(
        name="min_p_renorm",
        group="probabilities",
        summary="Keep the tokens that are at least a share as probable as the most probable one, and renormalise.",
        contract=Contract(
            parameters=(
                _PROBABILITIES,
                array("min_p", "float32 [token]", Unit.PROBABILITY, within=("0", "1")),
            ),
            outputs=(_renormalised("renormalised"),),
            requires=(_NEEDS_A_TOKEN,),
        ),
        source="semantics B.7",
    ),
    Operation(
        name="target_probabilities",
        group="probabilities",
        summary="Temperature, softmax, top-k, top-p and min-p of the rows of every request; temperature 0 is one-hot.",
        contract=Contract(
            parameters=(FLOAT_LOGITS, *filters(), NUM_DRAFT_TOKENS),
            outputs=(array("target_probs", "float32 [request*node, vocab]", Unit.PROBABILITY, within=("0", "1")),),
            requires=(_NEEDS_A_TOKEN,),
        ),
        source="semantics B.4, B.7, B.8",
    ),
)
