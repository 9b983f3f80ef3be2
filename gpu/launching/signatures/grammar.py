"""Compilations of the grammar kernels."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_AUTOMATON = {
    "transitions_ptr": "*i32",
    "is_terminated_ptr": "*i1",
    "state_ptr": "*i32",
    "vocab": "i32",
    "state_stride": "i32",
    "token_stride": "i32",
}

SIGNATURES: Signatures = {
    "_reach_nodes_kernel": tuple(
        Variant(
            types={
                **_AUTOMATON,
                **dict.fromkeys(("candidates_ptr", "next_token_ptr", "next_sibling_ptr"), "*i64"),
                **dict.fromkeys(("grammar_state_ptr", "parent_ptr"), "*i32"),
                **dict.fromkeys(("num_requests", "num_nodes", "num_states"), "i32"),
            },
            constants={"REQUESTS": 1, "NODES": nodes},
            num_warps=num_warps,
        )
        for nodes, num_warps in ((1, 1), (64, 2), (1024, 8))
    ),
    "_fill_bitmask_kernel": (
        Variant(
            types={**_AUTOMATON, "vocab_mask_ptr": "*i32", "num_rows": "i32", "num_words": "i32"},
            constants={"ROWS": 1, "WORDS": 32},
        ),
    ),
}
