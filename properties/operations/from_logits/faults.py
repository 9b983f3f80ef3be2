"""Faults in acceptance straight from logits."""

import numpy as np

from specsim.properties.mutants.record import (
    edits_of,
    mutants_by_operation,
    of_the_neighbour,
    returning,
    with_arguments,
)

DIFFS = """
    @@ verify_tree_greedy_from_logits
    OWN-324 Rows are looked up by request number.
    - logits.astype(np.float32)
    + logits[np.add.outer(range(axes["request"]), range(axes["node"])).reshape(-1)].astype(np.float32)
    OWN-325 Logits that are close count as equal.
    - logits.astype(np.float32) => np.round(logits.astype(np.float32) / 4) * 4
    OWN-326 Of equal logits the higher id wins.
    - logits.astype(np.float32)
    + logits.astype(np.float32) + np.arange(axes["vocab"], dtype=np.float32) * np.float32(2**-10)
    @@ verify_tree_sampled_from_logits
    OWN-5778 A top-k that is left out keeps one token.
    - np.full(each, EVERY_TOKEN, dtype=np.int32) => np.ones(each, dtype=np.int32)
    OWN-5779 A top-p that is left out is 0.5.
    - np.ones(each, dtype=np.float32) => np.full(each, 0.5, dtype=np.float32)
    OWN-5780 A min-p that is left out is 0.5.
    - np.zeros(each, dtype=np.float32) => np.full(each, 0.5, dtype=np.float32)
    OWN-5781 Without filters every request is sampled at temperature 1.
      axes = check_call("verify_tree_sampled_from_logits", locals())
    + temperature = np.ones_like(temperature) if top_k is None and top_p is None and min_p is None else temperature
"""

_never_greedy = with_arguments(temperature=lambda values: np.where(values == 0, np.float32(1), values))
_large_forbidden = with_arguments(
    logits=lambda logits: np.nan_to_num(logits.astype(np.float32), neginf=0.0).astype(logits.dtype)
)
_cut_at_the_last_row = with_arguments(
    logits=lambda logits: np.minimum(logits.astype(np.float32), logits[-1:].astype(np.float32).max(initial=-np.inf))
)
_every_path_full = returning(lambda outputs, asked: outputs["num_accepted_drafts"].fill(asked["num_steps"]))

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    verify_tree_sampled_from_logits=(
        ("V24", "Sampled requests are verified greedily.", with_arguments(temperature=np.zeros_like)),
        ("OWN-277", "Greedy requests are sampled.", _never_greedy),
        ("OWN-278", "Rows belong to the node before.", of_the_neighbour("logits")),
        ("OWN-279", "Forbidden tokens get a logit of 0.", _large_forbidden),
        ("OWN-320", "Min-p is left out.", with_arguments(min_p=np.zeros_like)),
        ("OWN-321", "Top-k is left out.", with_arguments(top_k=lambda counts: np.full_like(counts, 2**30))),
        ("OWN-322", "Top-p is left out.", with_arguments(top_p=np.ones_like)),
        ("OWN-323", "Logits are cut at the largest of the last row.", _cut_at_the_last_row),
    ),
    verify_tree_greedy_from_logits=(
        ("OWN-327", "Every path counts as full.", _every_path_full),
        ("OWN-328", "Forbidden tokens get a logit of 0.", _large_forbidden),
    ),
)
