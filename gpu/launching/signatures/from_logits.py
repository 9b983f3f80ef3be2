"""Compilations of the kernels from logits: bfloat16 and float32, small vocabularies in float64 and large ones."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_SHAPES = {"vocab": "i32", "row_stride": "i64", "column_stride": "i32"}
_LISTS = {
    "current_ptr": "*i32",
    "chunk_max_ptr": "*fp32",
    "chunk_mass_ptr": "*fp64",
    "chunk_bound_ptr": "*fp32",
    "listed_logits_ptr": "*fp32",
    "listed_tokens_ptr": "*i32",
    "temperature_ptr": "*fp32",
    "top_k_ptr": "*i32",
    "num_nodes": "i32",
    "level": "i32",
    **_SHAPES,
}
_WALK = {
    **_LISTS,
    "candidates_ptr": "*i64",
    "retrieve_index_ptr": "*i64",
    "next_token_ptr": "*i64",
    "next_sibling_ptr": "*i64",
    "coins_ptr": "*fp32",
    "final_coins_ptr": "*fp32",
    "top_p_ptr": "*fp32",
    "min_p_ptr": "*fp32",
    "threshold_single_ptr": "*fp32",
    "threshold_acc_ptr": "*fp32",
    "predict_ptr": "*i32",
    "accept_index_ptr": "*i32",
    "num_accepted_drafts_ptr": "*i32",
    "num_steps": "i32",
    "num_levels": "i32",
    "num_chunks": "i32",
    "chunk_size": "i32",
    "strict": "i32",
    "skip_duplicates": "i32",
}
_GREEDY = {
    **_SHAPES,
    "candidates_ptr": "*i64",
    "retrieve_index_ptr": "*i64",
    "next_token_ptr": "*i64",
    "next_sibling_ptr": "*i64",
    "reached_ptr": "*i32",
    "chunk_max_ptr": "*fp32",
    "chunk_token_ptr": "*i32",
    "predict_ptr": "*i32",
    "accept_index_ptr": "*i32",
    "num_accepted_drafts_ptr": "*i32",
    "num_nodes": "i32",
    "num_steps": "i32",
    "level": "i32",
    "num_levels": "i32",
    "num_chunks": "i32",
}
_LARGE = {"logits_ptr": "*bf16"}
_SMALL = {"logits_ptr": "*fp32"}

SIGNATURES: Signatures = {
    "_walk_greedy_kernel": (
        Variant(
            types={**_GREEDY, **_LARGE},
            constants={"NODES": 32, "STEPS": 8, "CHUNKS": 16, "CHUNK": 8192},
            num_warps=8,
        ),
        Variant(
            types={**_GREEDY, **_SMALL},
            constants={"NODES": 16, "STEPS": 4, "CHUNKS": 1, "CHUNK": 1024},
            num_warps=4,
        ),
    ),
    "_row_statistics_kernel": (
        Variant(
            types={**_LISTS, **_LARGE},
            constants={"UNITS": 2048, "UNIT": 8, "SLOTS": 128, "SHIFT": 16, "PRECISE": False},
            num_warps=8,
        ),
        Variant(
            types={**_LISTS, **_SMALL},
            constants={"UNITS": 256, "UNIT": 4, "SLOTS": 128, "SHIFT": 0, "PRECISE": True},
            num_warps=8,
        ),
    ),
    "_walk_sampled_kernel": (
        Variant(
            types={**_WALK, **_LARGE},
            constants={
                "NODES": 32,
                "STEPS": 8,
                "CHUNKS": 8,
                "SLOTS": 128,
                "SHIFT": 16,
                "WAYS": 16,
                "ROW_WAYS": 4,
                "BLOCK": 4096,
                "PRECISE": False,
            },
            num_warps=8,
        ),
        Variant(
            types={**_WALK, **_SMALL},
            constants={
                "NODES": 16,
                "STEPS": 4,
                "CHUNKS": 1,
                "SLOTS": 128,
                "SHIFT": 0,
                "WAYS": 16,
                "ROW_WAYS": 4,
                "BLOCK": 1024,
                "PRECISE": True,
            },
            num_warps=8,
        ),
    ),
}
