"""Mutants of sampled verification that change nothing but a law: thresholds, filters, coins, rows."""

from itertools import count

import ml_dtypes
import numpy as np

from specsim.properties.mutants.record import edits_of, mutants_by_operation, of_the_first, with_arguments, with_outputs

DIFFS = """
    @@ tree_speculative_sampling_target_only in Acceptance.accepts
    OWN-281 The mass is multiplied by the threshold, not divided.
    - mass / max(self.threshold_acc, LEAST_THRESHOLD) => mass * max(self.threshold_acc, 2.0**-20)
    @@ verify_tree_sampled_from_logits
    OWN-283 Beside a sampled request a greedy one is sampled at temperature 1.
      axes = check_call("verify_tree_sampled_from_logits", locals())
    + temperature = np.where((temperature == 0) & (temperature > 0).any(), np.float32(1), temperature)
    OWN-285 Logits of bfloat16 are divided by the temperature in bfloat16.
      axes = check_call("verify_tree_sampled_from_logits", locals())
    + if logits.dtype == half:
    +     by_row = np.repeat(np.where(temperature > 0, temperature, np.float32(1)), axes["node"])[:, None]
    +     logits = (logits.astype(np.float32) / by_row).astype(half)
    +     temperature = (temperature > 0).astype(np.float32)
    @@ generate_coins
    OWN-287 The place in the batch takes the place of the seed.
    - coin(int(seeds[request]), int(seq_lens[request]), node) => coin(request, int(seq_lens[request]), node)
    - coin(int(seeds[request]), int(seq_lens[request]), FINAL_COLUMN)
    + coin(request, int(seq_lens[request]), FINAL_COLUMN)
    OWN-290 The final coin is the coin of the root.
    - FINAL_COLUMN => 0
"""

_CALLS = count(1)
_lengths_of_a_counter = with_arguments(seq_lens=lambda lengths: np.full_like(lengths, next(_CALLS) % 2**31))
_worst_first = with_outputs(
    logits=lambda logits: (logits.min(axis=1, initial=0, keepdims=True) - 1 - logits).astype(np.float32)
)

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, half=ml_dtypes.bfloat16),
    tree_speculative_sampling_target_only=(
        ("OWN-280", "Equal siblings are passed over in upstream mode too.", with_arguments(skip_duplicates=True)),
        ("OWN-292", "The mass of equal siblings counts each time.", with_arguments(skip_duplicates=False)),
        ("OWN-282", "Every request has the coins of the first.", of_the_first("uniform_samples")),
    ),
    verify_tree_sampled_from_logits=(
        ("OWN-284", "The filters of the first request hold for all.", of_the_first("top_k", "top_p", "min_p")),
    ),
    generate_coins=(
        ("OWN-288", "The seed is left out.", with_arguments(seeds=np.zeros_like)),
        ("OWN-289", "A counter of calls takes the place of the length.", _lengths_of_a_counter),
    ),
    hash_sampling_logits=(("OWN-291", "The unlikeliest token has the largest logit.", _worst_first),),
)
