"""Trees: links, positions and masks."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.compiled import compiled, engine_on_cuda, needed
from specsim.engines.sglang.release import engine, in_release, largest_tree

if TYPE_CHECKING:
    import torch

BUILD_TREE = in_release("build_tree_kernel_efficient", "srt.speculative.eagle_utils")
TRITON_TREE = in_release("sgl_build_tree_kernel_triton", "kernels.ops.speculative.spec_tree")
TREE_MASK_MODE = in_release("TreeMaskMode", "kernels.ops.speculative.spec_tree", "srt.speculative.eagle_utils")
RECONSTRUCT = in_release("reconstruct_indices_from_tree_mask_triton", "kernels.ops.speculative.reconstruct_tree")


def is_compiled() -> bool:
    """Return whether trees are built by a compiled kernel."""
    return compiled("build_tree").function is not None


def limits() -> dict[str, tuple[int, ...]]:
    """Return what is taken: kernels of Triton pack no bits."""
    return {"mask_mode": (0, 1, 2) if is_compiled() else (0, 1), "node": (1, largest_tree())}


def build_tree(
    bonus_tokens: "torch.Tensor",
    parent_list: "torch.Tensor",
    top_scores_index: "torch.Tensor",
    draft_tokens: "torch.Tensor",
    seq_lens: "torch.Tensor",
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    mask_mode: int,
    seq_lens_sum: int,
) -> "tuple[torch.Tensor, ...]":
    """Turn kept candidates into a tree, by a compiled kernel where one is reached; lengths are of 64 bits in SGLang."""
    sglang = engine_on_cuda() if is_compiled() else engine()
    tree_mask, positions, retrieve_index, next_token, next_sibling, draft_token = sglang.get(BUILD_TREE)(
        bonus_tokens,
        parent_list,
        top_scores_index,
        draft_tokens,
        seq_lens.long(),
        seq_lens_sum,
        topk,
        num_steps,
        num_draft_tokens,
        sglang.get(TREE_MASK_MODE)(mask_mode),
    )
    return draft_token, retrieve_index, next_token, next_sibling, positions, tree_mask


def reconstruct_indices_from_tree_mask(
    tree_mask: "torch.Tensor", seq_lens: "torch.Tensor"
) -> "tuple[torch.Tensor, ...]":
    """Recover positions and links from an ancestor matrix."""
    import torch

    num_requests, num_nodes, _ = tree_mask.shape
    positions = tree_mask.new_empty(num_requests * num_nodes, dtype=torch.int64)
    links = [positions.new_empty((num_requests, num_nodes)) for _ in range(3)]
    engine().get(RECONSTRUCT)(tree_mask, seq_lens, positions, *links, num_requests, num_nodes)
    return (positions, *links)


TABLE = (
    Adapted(build_tree, (BUILD_TREE, *needed("build_tree", TRITON_TREE), TREE_MASK_MODE)),
    Adapted(reconstruct_indices_from_tree_mask, (RECONSTRUCT,)),
)
