"""Signatures of the kernels on the request-to-token map."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_TYPES = {
    "req_pool_indices_ptr": "*i64",
    "req_to_token_ptr": "*i32",
    "out_cache_loc_ptr": "*i64",
    "row_stride": "i32",
    "position_stride": "i32",
    "num_locations": "i32",
    "num_requests": "i32",
}
_VARIANTS = tuple(
    Variant(
        types={**_TYPES, "start_offsets_ptr": f"*{offset}", "end_offsets_ptr": f"*{offset}"},
        constants={"LOCATIONS": 32, "REQUESTS": 128},
    )
    for offset in ("i64", "i32")
)

SIGNATURES: Signatures = {
    "_assign_req_to_token_pool_kernel": _VARIANTS,
    "_assign_extend_cache_locs_kernel": _VARIANTS,
    "_remap_accepted_slots_kernel": tuple(
        Variant(
            types={
                "req_pool_indices_ptr": "*i64",
                "req_to_token_ptr": "*i32",
                "seq_lens_ptr": f"*{length}",
                "out_cache_loc_ptr": "*i64",
                "accept_index_ptr": "*i32",
                "evict_mask_ptr": "*i1",
                "num_requests": "i32",
                "num_nodes": "i32",
                "width": "i32",
                "num_rows": "i32",
                "row_width": "i32",
                "row_stride": "i32",
                "position_stride": "i32",
            },
            constants={"REQUESTS": 1, "NODES": 64, "PATH": 8},
        )
        for length in ("i64", "i32")
    ),
}
