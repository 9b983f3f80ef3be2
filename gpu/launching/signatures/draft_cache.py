"""Compilations of the draft-cache kernels."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_ROWS = {
    "req_pool_indices_ptr": "*i64",
    "req_to_token_ptr": "*i32",
    "seq_lens_ptr": "*i64",
    "num_rows": "i32",
    "row_width": "i32",
    "row_stride": "i32",
    "column_stride": "i32",
}

SIGNATURES: Signatures = {
    "_assign_draft_cache_locs_kernel": (
        Variant(
            types={**_ROWS, "out_cache_loc_ptr": "*i64", "num_entries": "i32"},
            constants={"ENTRIES": 20, "BLOCK": 256},
        ),
    ),
    "_per_step_draft_out_cache_loc_kernel": (
        Variant(
            types={
                "out_cache_loc_ptr": "*i64",
                "step_cache_loc_ptr": "*i64",
                "num_entries": "i32",
                "num_rows": "i32",
                "stride": "i32",
            },
            constants={"NUM_STEPS": 5, "BLOCK": 256},
        ),
    ),
    "_generate_draft_decode_kv_indices_kernel": (
        Variant(
            types={**_ROWS, "kv_indices_ptr": "*i32", "kv_indptr_ptr": "*i32", "num_requests": "i32"},
            constants={"TOPK": 4, "NUM_STEPS": 5, "OWN": 8, "REQUESTS": 64, "ROWS": 4, "BLOCK": 512},
        ),
    ),
}
