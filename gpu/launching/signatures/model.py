"""Signatures of the kernels of the model forwards."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_BUFFERS = {
    "keys_ptr": "*i64",
    "values_ptr": "*i64",
    "key_slot_stride": "i32",
    "key_word_stride": "i32",
    "value_slot_stride": "i32",
    "value_word_stride": "i32",
}
_TOKENS = {"input_ids_ptr": "*i64", "positions_ptr": "*i64", "num_tokens": "i32"}
_STORE = {**_BUFFERS, **_TOKENS, "out_cache_loc_ptr": "*i64", "below_stride": "i32", "component": "i32"}
_PAGES = {
    **_BUFFERS,
    "positions_ptr": "*i64",
    "page_table_ptr": "*i32",
    "page_row_stride": "i32",
    "page_stride": "i32",
    "cache_seqlens_ptr": "*i32",
    "cu_seqlens_q_ptr": "*i32",
    "folds_ptr": "*i64",
    "fold_stride": "i32",
    "page_size": "i32",
    "num_requests": "i32",
}
_BLOCKS = {"ITEMS": 1, "QUERIES": 16, "KEYS": 128, "REQUESTS": 64}

SIGNATURES: Signatures = {
    "_store_entries_kernel": (
        Variant(types=_STORE, constants={"below_ptr": None, "NUM_DIGESTED": 0, "ROWS": 128}),
        Variant(types={**_STORE, "below_ptr": "*i64"}, constants={"NUM_DIGESTED": 0, "ROWS": 128}),
        Variant(types={**_STORE, "below_ptr": "*i64"}, constants={"NUM_DIGESTED": 3, "ROWS": 128}),
    ),
    "_fold_pages_kernel": (
        Variant(types=_PAGES, constants={"tree_mask_ptr": None, "context_word_ptr": None, **_BLOCKS}),
        Variant(types={**_PAGES, "tree_mask_ptr": "*i1", "context_word_ptr": "*i64"}, constants=_BLOCKS),
    ),
    "_fold_rows_kernel": (
        Variant(
            types={
                **_BUFFERS,
                "kv_indices_ptr": "*i32",
                "kv_indptr_ptr": "*i32",
                "folds_ptr": "*i64",
                "fold_stride": "i32",
                "num_tokens": "i32",
            },
            constants={"ROWS": 1, "KEYS": 256},
        ),
    ),
    "_advance_kernel": (
        Variant(
            types={
                **_TOKENS,
                "hidden_states_ptr": "*i64",
                "folds_ptr": "*i64",
                "next_hidden_states_ptr": "*i64",
                "context_ptr": "*i64",
            },
            constants={"NUM_WORDS": 3, "NUM_LAYERS": 1, "ROWS": 128},
        ),
    ),
}
