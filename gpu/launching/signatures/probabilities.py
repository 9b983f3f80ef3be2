"""Compilations of the kernels on rows of logits and probabilities: both logit types, arguments present and absent."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_STRIDES = {"row_stride": "i32", "column_stride": "i32"}
_OPTIONAL = {
    "scaling_penalty_ptr": "*fp32",
    "additive_penalty_ptr": "*fp32",
    "logit_bias_ptr": "*fp32",
    "vocab_mask_ptr": "*i32",
}
_PREPARE = {
    **_STRIDES,
    "prepared_logits_ptr": "*fp32",
    "num_rows": "i32",
    "num_nodes": "i32",
    "vocab": "i32",
    "num_words": "i32",
}

SIGNATURES: Signatures = {
    "_prepare_logits_kernel": (
        Variant(types={**_PREPARE, **_OPTIONAL, "logits_ptr": "*bf16"}, constants={"ROWS": 1, "BLOCK": 1024}),
        Variant(
            types={**_PREPARE, "logits_ptr": "*fp32", "vocab_mask_ptr": "*i32"},
            constants={
                "scaling_penalty_ptr": None,
                "additive_penalty_ptr": None,
                "logit_bias_ptr": None,
                "ROWS": 1,
                "BLOCK": 1024,
            },
        ),
    ),
    "_renormalise_kernel": tuple(
        Variant(
            types={
                **_STRIDES,
                "probabilities_ptr": "*fp32",
                "filter_ptr": parameter,
                "renormalised_ptr": "*fp32",
                "num_rows": "i32",
                "vocab": "i32",
            },
            constants={"FILTER": kind, "ROWS": 1, "BLOCK": block},
            num_warps=8,
        )
        for kind, parameter, block in ((0, "*i32", 2048), (1, "*fp32", 2048), (2, "*fp32", 2048), (0, "*i32", 64))
    ),
    "_target_probabilities_kernel": tuple(
        Variant(
            types={
                **_STRIDES,
                "logits_ptr": logits,
                "temperature_ptr": "*fp32",
                "top_k_ptr": "*i32",
                "top_p_ptr": "*fp32",
                "min_p_ptr": "*fp32",
                "target_probs_ptr": "*fp32",
                "num_rows": "i32",
                "num_nodes": "i32",
                "vocab": "i32",
            },
            constants={"ROWS": 1, "BLOCK": 2048},
            num_warps=8,
        )
        for logits in ("*fp32", "*bf16")
    ),
}
