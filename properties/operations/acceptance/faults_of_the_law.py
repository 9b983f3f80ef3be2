"""Mutants of sampled verification that change nothing but a law: thresholds, filters, coins, rows."""

from typing import Any

import ml_dtypes
import numpy as np

from specsim.host.sampling import LARGEST_COIN
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    given,
    of_the_first,
    returning,
    with_arguments,
    wrapped,
)

LAST_COIN = np.float32(LARGEST_COIN)


def _boundary_lowered(arguments: Named) -> None:
    threshold = np.maximum(arguments["threshold_acc"], np.float32(2.0**-20))[:, None]
    arguments["uniform_samples"] = np.minimum(arguments["uniform_samples"] / threshold, LAST_COIN)
    arguments["threshold_acc"] = np.ones_like(arguments["threshold_acc"])


def _greedy_sampled_beside_others(arguments: Named) -> None:
    temperature = arguments["temperature"]
    if (temperature > 0).any():
        arguments["temperature"] = np.where(temperature == 0, np.float32(1), temperature).astype(np.float32)


def _divided_in_half_precision(arguments: Named) -> None:
    logits, temperature = arguments["logits"], arguments["temperature"]
    if logits.dtype != ml_dtypes.bfloat16 or not len(temperature):
        return
    scale = np.where(temperature > 0, temperature, np.float32(1)).astype(np.float32)
    by_row = np.repeat(scale, arguments["candidates"].shape[1])[:, None]
    arguments["logits"] = (logits.astype(np.float32) / by_row).astype(ml_dtypes.bfloat16)
    arguments["temperature"] = np.where(temperature > 0, np.float32(1), np.float32(0)).astype(np.float32)


def _seeds_of_the_place(arguments: Named) -> None:
    arguments["seeds"] = np.arange(len(arguments["seeds"]), dtype=np.int64)


def _lengths_of_a_counter(correct: Function) -> Function:
    """Replace the lengths by the number of calls so far."""
    calls = 0

    def call(arguments: Named) -> Any:
        nonlocal calls
        calls += 1
        return correct(**{**arguments, "seq_lens": np.full_like(arguments["seq_lens"], calls % 2**31)})

    return wrapped(correct, call)


def _final_coin_of_the_root(outputs: Named, arguments: Named) -> None:
    del arguments
    coins = outputs["uniform_samples"]
    if coins.shape[1]:
        outputs["uniform_samples_for_final_sampling"] = coins[:, 0].copy()


def _worst_first(outputs: Named, arguments: Named) -> None:
    del arguments
    logits = outputs["logits"]
    outputs["logits"] = (logits.min(axis=1, initial=0, keepdims=True) - 1 - logits).astype(np.float32)


_TREE = "tree_speculative_sampling_target_only"
_FROM_LOGITS = "verify_tree_sampled_from_logits"
_COINS = "generate_coins"

MUTANTS = (
    Mutant(
        "OWN-280", _TREE, "Equal siblings are passed over in upstream mode too.", with_arguments(skip_duplicates=True)
    ),
    Mutant("OWN-292", _TREE, "The mass of equal siblings counts each time.", with_arguments(skip_duplicates=False)),
    Mutant("OWN-281", _TREE, "The mass is multiplied by the threshold, not divided.", given(_boundary_lowered)),
    Mutant("OWN-282", _TREE, "Every request has the coins of the first.", of_the_first("uniform_samples")),
    Mutant(
        "OWN-283",
        _FROM_LOGITS,
        "Beside a sampled request a greedy one is sampled at temperature 1.",
        given(_greedy_sampled_beside_others),
    ),
    Mutant(
        "OWN-284",
        _FROM_LOGITS,
        "The filters of the first request hold for all.",
        of_the_first("top_k", "top_p", "min_p"),
    ),
    Mutant(
        "OWN-285",
        _FROM_LOGITS,
        "Logits of bfloat16 are divided by the temperature in bfloat16.",
        given(_divided_in_half_precision),
    ),
    Mutant("OWN-287", _COINS, "The place in the batch takes the place of the seed.", given(_seeds_of_the_place)),
    Mutant("OWN-288", _COINS, "The seed is left out.", with_arguments(seeds=np.zeros_like)),
    Mutant("OWN-289", _COINS, "A counter of calls takes the place of the length.", _lengths_of_a_counter),
    Mutant("OWN-290", _COINS, "The final coin is the coin of the root.", returning(_final_coin_of_the_root)),
    Mutant("OWN-291", "hash_sampling_logits", "The unlikeliest token has the largest logit.", returning(_worst_first)),
)
