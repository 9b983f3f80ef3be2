"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array, flag
from specsim.operations.record import Operation
from specsim.operations.shared import (
    ACCEPT_INDEX,
    CHAIN_OUTPUTS,
    CHAINS,
    FINAL_COINS,
    MAX_NUM_DRAFTS,
    NUM_ACCEPTED_DRAFTS,
    NUM_DRAFT_TOKENS,
    PREDICT,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    TREE_COINS,
    VERIFY_DEPTH,
    seq_lens,
    thresholds,
)
from specsim.rejection import Reason

_ROOT = Requirement("node >= 1", "a tree has a root")
_VOCABULARY = Requirement("vocab >= 1", "a distribution is over at least one token")


def _contract_of_chains(rows_read: str) -> Contract:
    """Return the contract of a sampler of chains; ``rows_read`` is the rule of the rows that carry meaning."""
    return Contract(
        parameters=(
            *CHAINS,
            array(
                "draft_probs",
                "float32 [drafted, vocab]",
                Unit.PROBABILITY,
                within=("0", "1"),
                defined=Defined(rows_read, "draft_probs"),
                optional=True,
            ),
            array(
                "target_probs",
                "float32 [drafted+request, vocab]",
                Unit.PROBABILITY,
                within=("0", "1"),
                defined=Defined(rows_read, "target_probs"),
            ),
            MAX_NUM_DRAFTS,
        ),
        outputs=CHAIN_OUTPUTS,
        requires=(_VOCABULARY,),
    )


OPERATIONS = (
    Operation(
        name="generate_coins",
        group="acceptance",
        summary="Coins of a verify, each a hash of the request's seed, its length and a column.",
        contract=Contract(
            parameters=(
                array("seeds", "int64 [request]", Unit.ANY, within=("0", "2**32-1")),
                seq_lens(),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(
                array("uniform_samples", "float32 [request, node]", Unit.COIN),
                array("uniform_samples_for_final_sampling", "float32 [request]", Unit.COIN),
            ),
        ),
        source="semantics B.9",
    ),
    Operation(
        name="tree_speculative_sampling_target_only",
        group="acceptance",
        summary="Walk each tree by chance: one coin a node, shared by its children, against the target's running mass.",
        contract=Contract(
            parameters=(
                array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", "vocab-1")),
                RETRIEVE_INDEX,
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                TREE_COINS,
                FINAL_COINS,
                array("target_probs", "float32 [request, node, vocab]", Unit.PROBABILITY, within=("0", "1")),
                array("draft_probs", "float32 [request, node, vocab]", Unit.PROBABILITY, within=("0", "0")),
                *thresholds(),
                VERIFY_DEPTH,
                flag("strict", True),
                flag("skip_duplicates", True),
            ),
            outputs=(PREDICT, ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS),
            requires=(_ROOT, _VOCABULARY),
            writes=("draft_probs",),
            scratch=("draft_probs",),
        ),
        source="semantics B.8, A.13",
    ),
    Operation(
        name="chain_speculative_sampling",
        group="acceptance",
        summary="Rejection sampling of ragged chains against the draft's own probabilities.",
        contract=_contract_of_chains("chain"),
        source="semantics B.9",
    ),
    Operation(
        name="chain_block_verification",
        group="acceptance",
        summary="Verification of ragged chains whose drafts are judged together, each chain as a block.",
        contract=_contract_of_chains("block"),
        source="semantics B.9b",
    ),
    Operation(
        name="generate_simulated_accept_index",
        group="acceptance",
        summary="Pretend that every request accepted the same number of tokens along its first nodes.",
        contract=Contract(
            parameters=(
                ACCEPT_INDEX,
                ScalarSpec("simulated_num_tokens", low="1", high="draft+1"),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(
                array("predict", "int32 [request*node]", Unit.TOKEN),
                array(
                    "simulated_accept_index",
                    "int32 [request, draft+1]",
                    Unit.NODE,
                    within=("0", "request*node-1"),
                    sentinel=-1,
                ),
                NUM_ACCEPTED_DRAFTS,
            ),
            requires=(
                Requirement("draft+1 <= node", "a path has no more nodes than its tree", Reason.SCALAR_OUT_OF_RANGE),
            ),
        ),
        source="semantics B.10",
    ),
)
