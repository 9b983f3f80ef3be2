"""Acceptance straight from raw logits: only the rows that a walk visits are normalised or maximised."""

from specsim.contracts.contract import Contract, Defined, Requirement, Unit, array, flag
from specsim.operations.record import Operation
from specsim.operations.shared import (
    ACCEPT_INDEX,
    CHAIN_OUTPUTS,
    CHAINS,
    FINAL_COINS,
    FLOAT_LOGITS,
    MAX_NUM_DRAFTS,
    NUM_ACCEPTED_DRAFTS,
    PREDICT,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    TREE_COINS,
    VERIFY_DEPTH,
    filters,
    thresholds,
)

_CANDIDATES = array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", "vocab-1"))
_REQUIRES = (
    Requirement("node >= 1", "a tree has a root"),
    Requirement("vocab >= 1", "an empty vocabulary has no largest logit"),
)
_OUTPUTS = (PREDICT, ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS)


def _contract_of_chains(rows_read: str) -> Contract:
    """Return the contract of a sampler of chains; ``rows_read`` is the rule of the rows that carry meaning."""
    return Contract(
        parameters=(
            *CHAINS,
            array(
                "draft_logits",
                "float32|bfloat16 [drafted, draft_vocab]",
                Unit.LOGIT,
                defined=Defined(rows_read, "draft_logits"),
                optional=True,
            ),
            array(
                "target_logits",
                "float32|bfloat16 [drafted+request, vocab]",
                Unit.LOGIT,
                defined=Defined(rows_read, "target_logits"),
            ),
            *filters(optional=True),
            array("draft_temperature", "float32 [request]", Unit.TEMPERATURE, within=("0", None)),
            MAX_NUM_DRAFTS,
        ),
        outputs=CHAIN_OUTPUTS,
        requires=(
            Requirement("vocab >= 1", "a distribution is over at least one token"),
            Requirement("draft_vocab >= 1", "a draft is drawn from at least one token"),
        ),
    )


OPERATIONS = (
    Operation(
        name="verify_tree_greedy_from_logits",
        group="from_logits",
        summary="Greedy acceptance from raw logits: the composition of the argmax and the greedy walk.",
        contract=Contract(
            parameters=(
                _CANDIDATES,
                RETRIEVE_INDEX,
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                FLOAT_LOGITS,
                VERIFY_DEPTH,
            ),
            outputs=_OUTPUTS,
            requires=_REQUIRES,
        ),
        source="semantics B.6",
    ),
    Operation(
        name="verify_tree_sampled_from_logits",
        group="from_logits",
        summary="Sampled acceptance from raw logits: the composition of temperature, filters and the tree sampler.",
        contract=Contract(
            parameters=(
                _CANDIDATES,
                RETRIEVE_INDEX,
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                TREE_COINS,
                FINAL_COINS,
                FLOAT_LOGITS,
                *filters(optional=True),
                *thresholds(),
                VERIFY_DEPTH,
                flag("strict", True),
                flag("skip_duplicates", True),
            ),
            outputs=_OUTPUTS,
            requires=_REQUIRES,
        ),
        source="semantics B.7, B.8",
    ),
    Operation(
        name="chain_speculative_sampling_from_logits",
        group="from_logits",
        summary="Rejection sampling of ragged chains from the visited rows of raw logits of target and draft.",
        contract=_contract_of_chains("chain"),
        source="semantics B.9c",
    ),
    Operation(
        name="chain_block_verification_from_logits",
        group="from_logits",
        summary="Verification of ragged chains as blocks from raw logits of target and draft.",
        contract=_contract_of_chains("block"),
        source="semantics B.9b, B.9c",
    ),
)
