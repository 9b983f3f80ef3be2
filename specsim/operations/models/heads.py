"""Heads: logits of the target and probabilities of the draft, exact integers and dyadic fractions."""

from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.hashing import TOKEN_BITS
from specsim.operations.record import Operation
from specsim.operations.shared import HAS_CONTEXT_WORD, HIDDEN_STATES

_CONTEXT = array("context", "int64 [token]", Unit.TAG, within=("0", "2**32-1"))
_NGRAM_COUNTS = array("ngram_counts", "uint8 [order, bucket, vocab]", Unit.COUNT)
_VOCAB_SIZE = ScalarSpec("vocab_size", axis="vocab", low="2", high=str(1 << TOKEN_BITS))
_SEED = ScalarSpec("seed", low="0", high="2**32-1")

OPERATIONS = (
    Operation(
        name="hash_target_logits",
        group="heads",
        summary="Tie-free integer logits of the hash model's target.",
        contract=Contract(
            parameters=(HIDDEN_STATES, _VOCAB_SIZE, _SEED),
            outputs=(array("logits", "int64 [token, vocab]", Unit.LOGIT),),
            requires=(HAS_CONTEXT_WORD,),
        ),
        source="semantics, tagged KV",
    ),
    Operation(
        name="text_target_logits",
        group="heads",
        summary="Back-off n-gram logits of the text model's target.",
        contract=Contract(
            parameters=(HIDDEN_STATES, _NGRAM_COUNTS),
            outputs=(array("logits", "int64 [token, vocab]", Unit.LOGIT),),
            requires=(
                HAS_CONTEXT_WORD,
                Requirement("order >= 1", "there is at least the order without context"),
                Requirement("order <= 5", "the context word holds four tokens"),
                Requirement("bucket >= 1", "every context needs a bucket"),
            ),
        ),
        source="semantics, tagged KV",
    ),
    Operation(
        name="hash_sampling_logits",
        group="heads",
        summary="Whole-number logits of the hash model for sampling: each token half as probable as the one before.",
        contract=Contract(
            parameters=(HIDDEN_STATES, _VOCAB_SIZE, _SEED),
            outputs=(array("logits", "float32 [token, vocab]", Unit.LOGIT),),
            requires=(HAS_CONTEXT_WORD,),
        ),
        source="semantics, tagged KV",
    ),
    Operation(
        name="hash_draft_probabilities",
        group="heads",
        summary="Dyadic draft probabilities that agree with the hash model's target at a given rate.",
        contract=Contract(
            parameters=(
                HIDDEN_STATES,
                _CONTEXT,
                _VOCAB_SIZE,
                _SEED,
                ScalarSpec("agreement", low="-2", high="2**32"),
            ),
            outputs=(array("probabilities", "float32 [token, vocab]", Unit.SCORE),),
            requires=(HAS_CONTEXT_WORD,),
        ),
        source="semantics, tagged KV",
    ),
    Operation(
        name="text_draft_probabilities",
        group="heads",
        summary="Dyadic draft probabilities from lower-order n-gram counts.",
        contract=Contract(
            parameters=(
                HIDDEN_STATES,
                _CONTEXT,
                _NGRAM_COUNTS,
            ),
            outputs=(array("probabilities", "float32 [token, vocab]", Unit.SCORE),),
            requires=(
                HAS_CONTEXT_WORD,
                Requirement("order >= 1", "there is at least the order without context"),
                Requirement("order <= 4", "the weights of four orders fit 64 bits"),
                Requirement("bucket >= 1", "every context needs a bucket"),
            ),
        ),
        source="semantics, tagged KV",
    ),
)
