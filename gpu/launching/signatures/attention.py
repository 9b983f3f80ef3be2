"""Compilations of the attention metadata kernels: both types of lengths, keys with and without the window."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_ROWS = {
    "req_pool_indices_ptr": "*i64",
    "req_to_token_ptr": "*i32",
    **dict.fromkeys(("num_rows", "num_nodes", "row_stride", "column_stride"), "i32"),
}
_KEYS = {
    **_ROWS,
    **dict.fromkeys(("qo_indptr_ptr", "kv_indptr_ptr", "kv_indices_ptr"), "*i32"),
    **dict.fromkeys(("num_requests", "num_positions", "num_entries"), "i32"),
}

SIGNATURES: Signatures = {
    "_cascade_prefix_kernel": tuple(
        Variant(
            types={
                **_ROWS,
                "seq_lens_ptr": length,
                **dict.fromkeys(("cache_seqlens_ptr", "cu_seqlens_q_ptr", "page_table_ptr"), "*i32"),
                "num_columns": "i32",
            },
            constants={"BLOCK": 1024},
        )
        for length in ("*i32", "*i64")
    ),
    "_cascade_expand_kernel": tuple(
        Variant(
            types={
                **_ROWS,
                "seq_lens_ptr": "*i64",
                "tree_mask_ptr": "*i1",
                **dict.fromkeys(("expand_cache_seqlens_ptr", "expand_page_table_ptr"), "*i32"),
                **dict.fromkeys(("num_requests", "num_positions", "num_entries", "mask_stride"), "i32"),
            },
            constants={"REQUESTS": 64, "ROWS": rows, "NODES": nodes},
        )
        for rows, nodes in ((1, 1), (16, 64), (1, 1024))
    ),
    "_list_keys_kernel": (
        Variant(
            types={**_KEYS, "seq_lens_ptr": "*i64"},
            constants={"mask_indptr_ptr": None, "HAS_WINDOW": True, "REQUESTS": 64, "BLOCK": 1024},
        ),
        Variant(
            types={**_KEYS, "seq_lens_ptr": "*i32", "mask_indptr_ptr": "*i64"},
            constants={"HAS_WINDOW": False, "REQUESTS": 64, "BLOCK": 1024},
        ),
    ),
}
