"""Tree: from kept candidates to the arrays that verification walks."""

from specsim.config import MOST_PACKED_NODES, TreeMaskMode
from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import (
    NUM_CANDIDATES,
    NUM_DRAFT_TOKENS,
    NUM_STEPS,
    POSITIONS,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    TOPK,
    seq_lens,
)

_FULL = f"mask_mode == {TreeMaskMode.FULL_MASK.value}"
_PACKED = f"mask_mode == {TreeMaskMode.QLEN_ONLY_BITPACKING.value}"
_MASK_DTYPE = "'bool' if not_packed else 'uint8' if node <= 8 else 'uint16' if node <= 16 else 'uint32'"
_MASK_LENGTH = f"node*seq_lens_sum+node*node*request if {_FULL} else request*node if {_PACKED} else request*node*node"
_DEFINED_MASK = _MASK_LENGTH.replace("seq_lens_sum", "sum_seq_lens")

OPERATIONS = (
    Operation(
        name="build_tree",
        group="tree",
        summary="Turn kept candidates into draft tokens, child and sibling links, positions and the visibility mask.",
        contract=Contract(
            parameters=(
                array("bonus_tokens", "int32|int64 [request]", Unit.TOKEN, within=("0", None)),
                array(
                    "parent_list",
                    "int64 [request, parent if step == 1 else topk*(step-1)+1]",
                    Unit.CANDIDATE,
                    within=("0", f"{NUM_CANDIDATES}-1"),
                    sentinel=-1,
                ),
                array(
                    "top_scores_index", "int64 [request, node-1]", Unit.CANDIDATE, within=("0", f"{NUM_CANDIDATES}-1")
                ),
                array("draft_tokens", "int64 [request, node-1]", Unit.TOKEN, within=("0", None)),
                seq_lens(),
                TOPK,
                NUM_STEPS,
                NUM_DRAFT_TOKENS,
                ScalarSpec("mask_mode", low="0", high="2", default=TreeMaskMode.QLEN_ONLY.value),
                ScalarSpec("seq_lens_sum", low="0", high="2**31-1", default=0),
            ),
            outputs=(
                array("draft_token", "int64 [request*node]", Unit.TOKEN),
                RETRIEVE_INDEX,
                RETRIEVE_NEXT_TOKEN,
                RETRIEVE_NEXT_SIBLING,
                POSITIONS,
                array(
                    "tree_mask",
                    f"{_MASK_DTYPE} [{_MASK_LENGTH}]",
                    Unit.VISIBLE,
                    defined=Defined("length", _DEFINED_MASK),
                ),
            ),
            derived=(("not_packed", f"mask_mode != {TreeMaskMode.QLEN_ONLY_BITPACKING.value}"),),
            requires=(
                Requirement(f"node-1 <= {NUM_CANDIDATES}", "no more drafts can be kept than were proposed"),
                Requirement(
                    f"not_packed or node <= {MOST_PACKED_NODES}",
                    f"a packed mask row has at most {MOST_PACKED_NODES} bits",
                ),
            ),
        ),
        source="semantics A.7, A.8",
    ),
    Operation(
        name="reconstruct_indices_from_tree_mask",
        group="tree",
        summary="Recover positions and links from an ancestor matrix.",
        contract=Contract(
            parameters=(array("tree_mask", "bool [request, node, node]", Unit.VISIBLE), seq_lens()),
            outputs=(POSITIONS, RETRIEVE_INDEX, RETRIEVE_NEXT_TOKEN, RETRIEVE_NEXT_SIBLING),
        ),
        source="semantics A.13",
    ),
)
