"""Compilations of the draft kernels: both ways of selecting, one block and several, with and without hidden states."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_TOPK_TYPES = {
    "values_ptr": "*fp32",
    "topk_values_ptr": "*fp32",
    "topk_index_ptr": "*i64",
    "num_columns": "i32",
    "row_stride": "i32",
    "column_stride": "i32",
}
_SELECT_TYPES = {
    "topk_p_ptr": "*fp32",
    "topk_index_ptr": "*i64",
    "input_ids_ptr": "*i64",
    "next_scores_ptr": "*fp32",
    "score_block_ptr": "*fp32",
    "token_block_ptr": "*i64",
    "parent_block_ptr": "*i64",
    "step_index": "i32",
    "hidden_size": "i32",
    "hidden_row_stride": "i32",
    "hidden_column_stride": "i32",
}
_NO_HIDDEN = {"hidden_states_ptr": None, "next_hidden_states_ptr": None, "HAS_HIDDEN": False}
_HIDDEN_TYPES = {"hidden_states_ptr": "*bf16", "next_hidden_states_ptr": "*bf16"}
_THREE_BLOCKS = {"score_ptrs": ("*fp32",) * 3, "token_ptrs": ("*i64",) * 3, "parent_ptrs": ("*i64",) * 3}
_ORGANIZED = {"parent_list_ptr": "*i64", "top_scores_index_ptr": "*i64", "draft_tokens_ptr": "*i64"}

SIGNATURES: Signatures = {
    "_fast_topk_kernel": (
        Variant(
            types=_TOPK_TYPES,
            constants={
                "keys_ptr": None,
                "kept_keys_ptr": None,
                "K": 4,
                "WIDTH": 4,
                "BLOCK": 64,
                "FROM_KEYS": False,
                "IS_LAST": True,
                "ONE_BY_ONE": True,
            },
            num_warps=1,
        ),
        Variant(
            types={**_TOPK_TYPES, "kept_keys_ptr": "*i64"},
            constants={
                "keys_ptr": None,
                "K": 64,
                "WIDTH": 64,
                "BLOCK": 4096,
                "FROM_KEYS": False,
                "IS_LAST": False,
                "ONE_BY_ONE": False,
            },
            num_warps=8,
        ),
        Variant(
            types={**_TOPK_TYPES, "keys_ptr": "*i64"},
            constants={
                "kept_keys_ptr": None,
                "K": 10,
                "WIDTH": 16,
                "BLOCK": 1024,
                "FROM_KEYS": True,
                "IS_LAST": True,
                "ONE_BY_ONE": False,
            },
            num_warps=2,
        ),
    ),
    "_select_top_k_tokens_kernel": (
        Variant(
            types=_SELECT_TYPES,
            constants={
                **_NO_HIDDEN,
                "scores_ptr": None,
                "TOPK": 4,
                "WIDTH": 4,
                "BLOCK": 4,
                "HIDDEN_BLOCK": 1,
                "IS_FIRST": True,
                "ONE_BY_ONE": True,
            },
            num_warps=1,
        ),
        Variant(
            types={**_SELECT_TYPES, **_HIDDEN_TYPES, "scores_ptr": "*fp32"},
            constants={
                "TOPK": 16,
                "WIDTH": 16,
                "BLOCK": 256,
                "HIDDEN_BLOCK": 256,
                "IS_FIRST": False,
                "HAS_HIDDEN": True,
                "ONE_BY_ONE": False,
            },
            num_warps=1,
        ),
    ),
    "_organize_draft_results_kernel": (
        Variant(
            types={**_THREE_BLOCKS, **_ORGANIZED},
            constants={
                "NUM_STEPS": 3,
                "TOPK": 16,
                "NUM_KEPT": 63,
                "WIDTH": 64,
                "BLOCK": 1024,
                "PARENT_BLOCK": 32,
                "ONE_BY_ONE": False,
            },
            num_warps=2,
        ),
    ),
    "_organize_chain_draft_results_kernel": (
        Variant(
            types={"token_ptrs": ("*i64",) * 3, **_ORGANIZED, "num_requests": "i32"},
            constants={"NUM_STEPS": 3, "BLOCK": 64},
        ),
    ),
    "_map_hot_tokens_kernel": (
        Variant(
            types={
                "topk_index_ptr": "*i64",
                "hot_token_id_ptr": "*i64",
                "token_index_ptr": "*i64",
                "num_entries": "i32",
                "num_columns": "i32",
                "draft_vocab": "i32",
                "row_stride": "i32",
                "column_stride": "i32",
            },
            constants={"BLOCK": 256},
        ),
    ),
}
