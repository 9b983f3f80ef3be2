"""Compilations of acceptance by chance: both rules of the boundary and of duplicates, drafts with and without a law."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_TREE = {
    **dict.fromkeys(("candidates_ptr", "retrieve_index_ptr", "next_token_ptr", "next_sibling_ptr"), "*i64"),
    **dict.fromkeys(("uniform_samples_ptr", "final_samples_ptr", "target_probs_ptr", "draft_probs_ptr"), "*fp32"),
    **dict.fromkeys(("threshold_single_ptr", "threshold_acc_ptr"), "*fp32"),
    **dict.fromkeys(("predict_ptr", "accept_index_ptr", "num_accepted_drafts_ptr"), "*i32"),
    **dict.fromkeys(("num_nodes", "vocab", "num_steps"), "i32"),
    **{f"{row}_{axis}_stride": "i32" for row in ("target", "draft") for axis in ("request", "node", "token")},
}
_CHAIN = {
    "draft_tokens_ptr": "*i64",
    "cu_num_drafts_ptr": "*i32",
    "uniform_samples_ptr": "*fp32",
    "final_samples_ptr": "*fp32",
    "target_probs_ptr": "*fp32",
    "output_tokens_ptr": "*i32",
    "num_accepted_drafts_ptr": "*i32",
    **dict.fromkeys(("num_drafted", "vocab", "max_num_drafts"), "i32"),
    **{f"{row}_{axis}_stride": "i32" for row in ("target", "draft") for axis in ("row", "token")},
}

SIGNATURES: Signatures = {
    "_generate_coins_kernel": tuple(
        Variant(
            types={
                "seeds_ptr": "*i64",
                "seq_lens_ptr": length,
                "uniform_samples_ptr": "*fp32",
                "final_samples_ptr": "*fp32",
                "num_requests": "i32",
                "num_nodes": "i32",
            },
            constants={"REQUESTS": 16, "COLUMNS": 64},
        )
        for length in ("*i32", "*i64")
    ),
    "_tree_speculative_sampling_kernel": tuple(
        Variant(
            types=_TREE,
            constants={
                "STRICT": is_strict,
                "SKIP_DUPLICATES": is_strict,
                "NODES": nodes,
                "WIDTH": 8,
                "BLOCK": 4096,
                "BLOCKS": 64,
            },
            num_warps=8,
        )
        for is_strict, nodes in ((True, 32), (False, 1024))
    ),
    "_chain_speculative_sampling_kernel": (
        Variant(
            types={**_CHAIN, "draft_probs_ptr": "*fp32"},
            constants={"HAS_DRAFT": True, "WIDTH": 8, "BLOCK": 4096, "BLOCKS": 64},
            num_warps=8,
        ),
        Variant(
            types=_CHAIN,
            constants={"draft_probs_ptr": None, "HAS_DRAFT": False, "WIDTH": 8, "BLOCK": 4096, "BLOCKS": 64},
            num_warps=8,
        ),
    ),
    "_generate_simulated_accept_index_kernel": (
        Variant(
            types={
                **dict.fromkeys(
                    ("accept_index_ptr", "predict_ptr", "simulated_accept_index_ptr", "num_accepted_drafts_ptr"), "*i32"
                ),
                **dict.fromkeys(("num_requests", "simulated_num_tokens", "num_nodes", "width"), "i32"),
            },
            constants={"REQUESTS": 16, "NODES": 64},
        ),
    ),
}
