"""Signatures of the kernels that compact ids, rows and KV."""

import triton.language as tl

from specsim.gpu.launching.signatures.record import Signatures, Variant

_MOVE = {
    "strips_ptr": "*i64",
    "target_slots_ptr": "*i64",
    "source_slots_ptr": "*i64",
    "num_pairs": "i32",
    "num_tiles": "i32",
}
_ROWS = {
    "accept_index_ptr": "*i32",
    "num_rows": "i32",
    "num_nodes": "i32",
    "width": "i32",
    "num_words": "i32",
}

SIGNATURES: Signatures = {
    "_gather_accept_tokens_kernel": (
        Variant(
            types={
                "predict_ptr": "*i32",
                "accept_index_ptr": "*i32",
                "accept_tokens_ptr": "*i32",
                "num_entries": "i32",
            },
            constants={"BLOCK": 256},
        ),
    ),
    "_fill_bonus_tokens_kernel": (
        Variant(
            types={
                "accept_tokens_ptr": "*i32",
                "num_accepted_tokens_ptr": "*i32",
                "bonus_tokens_ptr": "*i32",
                "num_requests": "i32",
                "width": "i32",
            },
            constants={"BLOCK": 128},
        ),
    ),
    "_fill_accept_out_cache_loc_kernel": (
        Variant(
            types={
                "accept_index_ptr": "*i32",
                "out_cache_loc_ptr": "*i64",
                "source_slots_ptr": "*i64",
                "num_entries": "i32",
            },
            constants={"BLOCK": 1024},
        ),
    ),
    "_fill_accept_target_cache_loc_kernel": (
        Variant(
            types={
                "num_accepted_tokens_ptr": "*i32",
                "out_cache_loc_ptr": "*i64",
                "target_slots_ptr": "*i64",
                "num_entries": "i32",
                "width": "i32",
                "num_nodes": "i32",
            },
            constants={"BLOCK": 1024},
        ),
    ),
    "_compact_accepted_to_front_kernel": tuple(
        Variant(
            types={"values_ptr": f"*{word}", "compacted_ptr": f"*{word}", **_ROWS},
            constants={"ROWS": 2, "WORDS": 512},
        )
        for word in ("i64", "i32", "i16", "u8")
    ),
    "_move_kv_cache_kernel": tuple(
        Variant(
            types=_MOVE,
            constants={"WORD": word, "PAIRS": pairs, "WORDS": 128 // word.itemsize, "IS_ALIGNED": word is tl.int64},
            num_warps=pairs // 32,
        )
        for word, pairs in ((tl.int64, 256), (tl.int64, 1024), (tl.int32, 256), (tl.int16, 256), (tl.uint8, 256))
    ),
    "_move_kv_cache_by_scratch_kernel": (
        Variant(
            types={**_MOVE, "scratch_ptr": "*i64", "num_strip_tiles": "i32"},
            constants={"WORD": tl.int64, "PAIRS": 512, "WORDS": 16, "IS_ALIGNED": True},
            num_warps=16,
        ),
    ),
}
