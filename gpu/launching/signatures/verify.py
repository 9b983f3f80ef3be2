"""Compilations of the verify kernels: float and integer logits, one share of a row and several."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_ARGMAX = {
    "target_predict_ptr": "*i64",
    "vocab": "i32",
    "num_blocks_each": "i32",
    "row_stride": "i32",
    "column_stride": "i32",
}

SIGNATURES: Signatures = {
    "_target_verify_metadata_kernel": (
        Variant(
            types={
                "req_pool_indices_ptr": "*i64",
                "req_to_token_ptr": "*i32",
                "seq_lens_ptr": "*i64",
                "cache_seqlens_ptr": "*i32",
                "cu_seqlens_q_ptr": "*i32",
                "cu_seqlens_k_ptr": "*i32",
                "page_table_ptr": "*i32",
                "num_requests": "i32",
                "num_rows": "i32",
                "tokens_per_request": "i32",
                "num_pages": "i32",
                "page_size": "i32",
                "row_stride": "i32",
                "column_stride": "i32",
            },
            constants={"REQUESTS": 64, "BLOCK": 1024},
        ),
    ),
    "_argmax_target_predict_kernel": (
        Variant(
            types={**_ARGMAX, "logits_ptr": "*fp32"},
            constants={
                "block_values_ptr": None,
                "block_index_ptr": None,
                "BLOCK": 4096,
                "IS_FLOAT": True,
                "IS_LAST": True,
            },
            num_warps=8,
        ),
        Variant(
            types={**_ARGMAX, "logits_ptr": "*i64", "block_values_ptr": "*i64", "block_index_ptr": "*i32"},
            constants={"BLOCK": 4096, "IS_FLOAT": False, "IS_LAST": False},
            num_warps=8,
        ),
    ),
    "_merge_argmax_kernel": (
        Variant(
            types={
                "block_values_ptr": "*fp32",
                "block_index_ptr": "*i32",
                "target_predict_ptr": "*i64",
                "num_shares": "i32",
            },
            constants={"SHARES": 64},
            num_warps=1,
        ),
    ),
    "_verify_tree_greedy_kernel": (
        Variant(
            types={
                "candidates_ptr": "*i64",
                "retrieve_index_ptr": "*i64",
                "next_token_ptr": "*i64",
                "next_sibling_ptr": "*i64",
                "target_predict_ptr": "*i64",
                "predict_ptr": "*i32",
                "accept_index_ptr": "*i32",
                "num_accepted_drafts_ptr": "*i32",
                "num_requests": "i32",
                "num_nodes": "i32",
                "num_steps": "i32",
            },
            constants={"REQUESTS": 1, "NODES": 64, "WIDTH": 8},
            num_warps=2,
        ),
    ),
}
