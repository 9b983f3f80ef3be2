"""Signatures of the kernels that prepare a draft-extend."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

SIGNATURES: Signatures = {
    "_rotate_prefill_input_ids_kernel": (
        Variant(
            types={
                "input_ids_ptr": "*i64",
                "extend_lens_ptr": "*i32",
                "tail_tokens_ptr": "*i64",
                "rotated_input_ids_ptr": "*i64",
                "num_tokens": "i32",
                "num_requests": "i32",
            },
            constants={"TOKENS": 32, "REQUESTS": 128},
        ),
    ),
    "_prepare_for_extend_to_fill_draft_kvcache_kernel": tuple(
        Variant(
            types={
                "seq_lens_ptr": f"*{length}",
                "num_accepted_tokens_ptr": "*i32",
                "positions_ptr": "*i64",
                "forward_seq_lens_ptr": "*i64",
                "select_index_ptr": "*i64",
                "num_rows": "i32",
                "num_nodes": "i32",
            },
            constants={"BLOCK": 256},
        )
        for length in ("i64", "i32")
    ),
    "_create_extend_after_decode_spec_info_kernel": tuple(
        Variant(
            types={
                "input_ids_ptr": "*i64",
                "seq_lens_ptr": f"*{length}",
                "num_accepted_tokens_ptr": "*i32",
                "positions_ptr": "*i64",
                "bonus_tokens_ptr": "*i32",
                "num_tokens": "i32",
                "num_requests": "i32",
            },
            constants={"TOKENS": 32, "REQUESTS": 128},
        )
        for length in ("i64", "i32")
    ),
    "_generate_attn_arg_prefill_kernel": tuple(
        Variant(
            types={
                "req_pool_indices_ptr": "*i64",
                "req_to_token_ptr": "*i32",
                "kv_lens_ptr": f"*{length}",
                "num_accepted_tokens_ptr": "*i32",
                "qo_indptr_ptr": "*i32",
                "kv_indptr_ptr": "*i32",
                "kv_indices_ptr": "*i32",
                "num_requests": "i32",
                "num_rows": "i32",
                "row_width": "i32",
                "num_locations": "i32",
                "row_stride": "i32",
                "position_stride": "i32",
            },
            constants={"REQUESTS": 128, "BLOCK": 1024},
        )
        for length in ("i64", "i32")
    ),
}
