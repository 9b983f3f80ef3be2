"""Compilations of the tree kernels: each mask mode, and a tree of more than one mask word."""

from collections.abc import Mapping

from specsim.gpu.launching.signatures.record import Signatures, Variant

_LINKS = {"retrieve_index_ptr": "*i64", "next_token_ptr": "*i64", "next_sibling_ptr": "*i64", "positions_ptr": "*i64"}
_BUILD = {
    "bonus_tokens_ptr": "*i32",
    "parent_list_ptr": "*i64",
    "top_scores_index_ptr": "*i64",
    "draft_tokens_ptr": "*i64",
    "seq_lens_ptr": "*i64",
    "draft_token_ptr": "*i64",
    **_LINKS,
    "num_requests": "i32",
    "num_nodes": "i32",
    "parent_width": "i32",
    "mask_length": "i64",
}


def _build(mask_type: str, nodes: int, block: int, num_warps: int, flags: Mapping[str, object]) -> Variant:
    constants = {
        "IS_FULL": False,
        "IS_PACKED": False,
        "TOPK": 4,
        "ROUNDS": 3,
        "NODES": nodes,
        "BLOCK": block,
        "COLUMNS": min(nodes, 64),
        "NUM_WORDS": max(1, nodes // 64),
        "REQUESTS": 64,
        "PREFIX_ROWS": 4,
        "PREFIX_WORDS": 128,
        **flags,
    }
    return Variant(types={**_BUILD, "tree_mask_ptr": mask_type}, constants=constants, num_warps=num_warps)


SIGNATURES: Signatures = {
    "_build_tree_kernel": (
        _build("*u8", 64, 64, 4, {"IS_FULL": True}),
        _build("*u8", 16, 16, 1, {}),
        _build("*u8", 1024, 4, 8, {}),
        _build("*u8", 8, 8, 1, {"IS_PACKED": True}),
        _build("*u16", 16, 16, 1, {"IS_PACKED": True}),
        _build("*u32", 32, 32, 2, {"IS_PACKED": True}),
    ),
    "_reconstruct_indices_from_tree_mask_kernel": (
        Variant(
            types={
                "tree_mask_ptr": "*u8",
                "seq_lens_ptr": "*i64",
                **_LINKS,
                "num_nodes": "i32",
                "request_stride": "i32",
                "row_stride": "i32",
                "column_stride": "i32",
            },
            constants={"NODES": 128, "BLOCK": 32},
            num_warps=8,
        ),
    ),
}
