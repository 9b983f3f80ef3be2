"""Faults in acceptance straight from logits."""

from collections.abc import Callable

import numpy as np
from ml_dtypes import bfloat16

from specsim.properties.mutants.record import Mutant, Named, given, of_the_neighbour, returning, with_arguments

_SAMPLED = "verify_tree_sampled_from_logits"
_GREEDY = "verify_tree_greedy_from_logits"


def _never_greedy(arguments: Named) -> None:
    arguments["temperature"] = np.where(arguments["temperature"] == 0, np.float32(1), arguments["temperature"])


def _rows_by_request_number(arguments: Named) -> None:
    count, width = arguments["candidates"].shape
    rows = np.arange(count)[:, None] + np.arange(width)[None, :]
    arguments["logits"] = arguments["logits"][rows.reshape(-1)]


def _off(name: str, value: float) -> Callable[[Named], None]:
    def change(arguments: Named) -> None:
        arguments[name] = np.full_like(arguments[name], value)

    return change


def _largest_row_of_all(arguments: Named) -> None:
    logits = arguments["logits"].astype(np.float32)
    if len(logits):
        logits = np.where(np.isfinite(logits), np.minimum(logits, logits[-1].max()), logits)
    arguments["logits"] = logits.astype(arguments["logits"].dtype)


def _forbidden_tokens_are_large(arguments: Named) -> None:
    logits = arguments["logits"].astype(np.float32)
    arguments["logits"] = np.where(np.isneginf(logits), np.float32(0), logits).astype(arguments["logits"].dtype)


def _rounded_logits(arguments: Named) -> None:
    logits = np.round(arguments["logits"].astype(np.float32) / 4) * 4
    arguments["logits"] = logits.astype(bfloat16).astype(arguments["logits"].dtype)


def _ties_by_higher_id(arguments: Named) -> None:
    logits = arguments["logits"].astype(np.float32)
    token = np.arange(logits.shape[1], dtype=np.float32)
    arguments["logits"] = logits + np.where(np.isfinite(logits), token * np.float32(2**-10), 0).astype(np.float32)


def _longest_path_counted(outputs: Named, arguments: Named) -> None:
    outputs["num_accepted_drafts"] = np.full_like(outputs["num_accepted_drafts"], arguments["num_steps"])


MUTANTS = (
    Mutant("V24", _SAMPLED, "Sampled requests are verified greedily.", with_arguments(temperature=np.zeros_like)),
    Mutant("OWN-277", _SAMPLED, "Greedy requests are sampled.", given(_never_greedy)),
    Mutant("OWN-278", _SAMPLED, "Rows belong to the node before.", of_the_neighbour("logits")),
    Mutant("OWN-279", _SAMPLED, "Forbidden tokens get a logit of 0.", given(_forbidden_tokens_are_large)),
    Mutant("OWN-320", _SAMPLED, "Min-p is left out.", given(_off("min_p", 0.0))),
    Mutant("OWN-321", _SAMPLED, "Top-k is left out.", given(_off("top_k", 2**30))),
    Mutant("OWN-322", _SAMPLED, "Top-p is left out.", given(_off("top_p", 1.0))),
    Mutant("OWN-323", _SAMPLED, "Logits are cut at the largest of the last row.", given(_largest_row_of_all)),
    Mutant("OWN-324", _GREEDY, "Rows are looked up by request number.", given(_rows_by_request_number)),
    Mutant("OWN-325", _GREEDY, "Logits that are close count as equal.", given(_rounded_logits)),
    Mutant("OWN-326", _GREEDY, "Of equal logits the higher id wins.", given(_ties_by_higher_id)),
    Mutant("OWN-327", _GREEDY, "Every path counts as full.", returning(_longest_path_counted)),
    Mutant("OWN-328", _GREEDY, "Forbidden tokens get a logit of 0.", given(_forbidden_tokens_are_large)),
)
