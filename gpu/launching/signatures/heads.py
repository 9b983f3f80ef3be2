"""Signatures of the kernels of the model heads."""

from specsim.gpu.launching.signatures.record import Signatures, Variant

_SIZES = {"hidden_states_ptr": "*i64", "num_tokens": "i32", "num_words": "i32", "vocab_size": "i32"}
_COUNTS = {"ngram_counts_ptr": "*u8", "num_buckets": "i32"}
_DRAFT = {"context_ptr": "*i64", "probabilities_ptr": "*fp32"}

SIGNATURES: Signatures = {
    "_hash_target_logits_kernel": tuple(
        Variant(types={**_SIZES, "logits_ptr": "*i64", "seed": seed}, constants={"ROWS": 4, "TOKENS": 256})
        for seed in ("i32", "i64")
    ),
    "_hash_sampling_logits_kernel": tuple(
        Variant(
            types={**_SIZES, "logits_ptr": "*fp32", "seed": seed, "deepest": "i32"},
            constants={"ROWS": 1, "VOCAB": 1024},
        )
        for seed in ("i32", "i64")
    ),
    "_text_target_logits_kernel": (
        Variant(
            types={**_SIZES, **_COUNTS, "logits_ptr": "*i64"},
            constants={"NUM_ORDERS": 5, "ROWS": 4, "TOKENS": 256},
        ),
    ),
    "_hash_draft_probabilities_kernel": tuple(
        Variant(types={**_SIZES, **_DRAFT, "seed": seed, "agreement": agreement}, constants={"ROWS": 1, "VOCAB": 1024})
        for seed, agreement in (("i32", "i32"), ("i64", "i64"))
    ),
    "_text_draft_probabilities_kernel": (
        Variant(
            types={**_SIZES, **_COUNTS, **_DRAFT},
            constants={"NUM_ORDERS": 3, "ROWS": 4, "VOCAB": 256},
        ),
    ),
}
