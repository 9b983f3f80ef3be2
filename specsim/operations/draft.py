"""Draft: choose candidates and prune them."""

from specsim.config import MOST_NODES
from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import (
    NUM_CANDIDATES,
    NUM_DRAFT_TOKENS,
    PARENT_WIDTH,
    TOPK,
)

_FIRST_OR_LATER = "1 if index == 0 else topk"
_TOP_SCORES_INDEX = array("top_scores_index", "int64 [request, node-1]", Unit.CANDIDATE)
_DRAFT_TOKENS = array("draft_tokens", "int64 [request, node-1]", Unit.TOKEN)

OPERATIONS = (
    Operation(
        name="fast_topk",
        group="draft",
        summary="Pick the k largest entries of each row, ties by lower index.",
        contract=Contract(
            parameters=(
                array("values", "float32 [row, column]", Unit.SCORE),
                ScalarSpec("k", axis="k", low="1", high="column"),
            ),
            outputs=(
                array("topk_values", "float32 [row, k]", Unit.SCORE),
                array("topk_index", "int64 [row, k]", Unit.TOKEN),
            ),
        ),
        source="semantics A.2",
    ),
    Operation(
        name="select_top_k_tokens",
        group="draft",
        summary="Choose the beams of the next depth by cumulative score and emit the tree blocks of this depth.",
        contract=Contract(
            parameters=(
                ScalarSpec("step_index", axis="step_index", low="0", high=str(MOST_NODES)),
                array("topk_p", "float32 [request*branch, topk]", Unit.SCORE, within=("0", None)),
                array("topk_index", "int64 [request*branch, topk]", Unit.TOKEN, within=("0", None)),
                array("hidden_states", "any [request*branch, hidden]", Unit.ANY, optional=True),
                array("scores", "float32 [request, topk]", Unit.SCORE, within=("0", None), optional=True),
                TOPK,
            ),
            outputs=(
                array("input_ids", "int64 [request*topk]", Unit.TOKEN),
                array("next_hidden_states", "like hidden_states [request*topk, hidden]", Unit.ANY, optional=True),
                array("next_scores", "float32 [request, topk]", Unit.SCORE),
                array("score_block", "float32 [request, branch, topk]", Unit.SCORE),
                array("token_block", "int64 [request, branch*topk]", Unit.TOKEN),
                array("parent_block", "int64 [request, topk+1 if step_index == 0 else topk]", Unit.CANDIDATE),
            ),
            derived=(("branch", "1 if step_index == 0 else topk"),),
        ),
        source="semantics A.3",
    ),
    Operation(
        name="organize_draft_results",
        group="draft",
        summary="Keep the N-1 best candidates of all depths, in flat-id order, with the parents' flat ids.",
        contract=Contract(
            parameters=(
                array(
                    "score_list",
                    f"float32 [request, {_FIRST_OR_LATER}, topk]",
                    Unit.SCORE,
                    within=("0", None),
                    each="step",
                ),
                array(
                    "token_list",
                    f"int64 [request, ({_FIRST_OR_LATER})*topk]",
                    Unit.TOKEN,
                    within=("0", None),
                    each="step",
                ),
                array(
                    "parents_list",
                    "int64 [request, topk+1 if index == 0 else topk]",
                    Unit.CANDIDATE,
                    within=("0", f"{NUM_CANDIDATES}-1"),
                    sentinel=-1,
                    each="step",
                ),
                NUM_DRAFT_TOKENS,
            ),
            outputs=(
                array("parent_list", f"int64 [request, {PARENT_WIDTH}]", Unit.CANDIDATE),
                _TOP_SCORES_INDEX,
                _DRAFT_TOKENS,
            ),
            requires=(
                Requirement("node >= 2", "a tree has a root and at least one draft"),
                Requirement(f"node-1 <= {NUM_CANDIDATES}", "no more drafts can be kept than were proposed"),
            ),
        ),
        source="semantics A.5",
    ),
    Operation(
        name="organize_chain_draft_results",
        group="draft",
        summary="The same for topk 1, where nothing is pruned.",
        contract=Contract(
            parameters=(array("token_list", "int64 [request, 1]", Unit.TOKEN, within=("0", None), each="step"),),
            outputs=(
                array("parent_list", "int64 [request, step if step > 1 else 0]", Unit.CANDIDATE),
                array("top_scores_index", "int64 [request, step]", Unit.CANDIDATE),
                array("draft_tokens", "int64 [request, step]", Unit.TOKEN),
            ),
            requires=(Requirement("step >= 1", "a chain has at least one step"),),
        ),
        source="semantics A.6",
    ),
    Operation(
        name="map_hot_tokens",
        group="draft",
        summary="Map draft-vocabulary ids to target-vocabulary ids.",
        contract=Contract(
            parameters=(
                array("topk_index", "int64 [row, column]", Unit.TOKEN, within=("0", "draft_vocab-1")),
                array("hot_token_id", "int64 [draft_vocab]", Unit.TOKEN, within=("0", None)),
            ),
            outputs=(array("token_index", "int64 [row, column]", Unit.TOKEN),),
        ),
        source="semantics A.12",
    ),
)
