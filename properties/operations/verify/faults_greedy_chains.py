"""Faults in the greedy acceptance of ragged chains."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Named, instead, mutants_of, returning, with_outputs

Array = Any


@dataclass(frozen=True)
class Faults:
    """A walk by the book, but for the faults that are switched on."""

    all_matches_count: bool = False
    first_is_not_judged: bool = False
    last_is_not_judged: bool = False
    own_row: bool = False
    rows_of_drafts: bool = False
    sentinel_is_passed_over: bool = False
    offsets_are_even: bool = False
    bonus_of_the_last_row: bool = False
    bonus_of_the_first_row: bool = False


def _verified(**switched_on: bool) -> Callable[[Function], Function]:
    faults = Faults(**switched_on)

    def call(**arguments: Any) -> tuple[Array, Array]:
        offsets, most = arguments["cu_num_drafts"].tolist(), arguments["max_num_drafts"]
        tokens, chosen = arguments["draft_tokens"].tolist(), arguments["target_predict"].tolist()
        output = np.full((len(offsets) - 1, most + 1), -1, dtype=np.int32)
        counts = np.zeros(len(offsets) - 1, dtype=np.int32)
        for request in range(len(offsets) - 1):
            first, last = offsets[request : request + 2]
            if faults.offsets_are_even:
                first = request * (len(tokens) // (len(offsets) - 1))
                last = first + offsets[request + 1] - offsets[request]
            row = first + (0 if faults.rows_of_drafts else request)
            text = _walk(tokens[first:last], chosen[row : row + last - first + 1], faults)
            output[request, : len(text)] = text
            counts[request] = len(text) - 1
        return output, counts

    return instead(call)


def _walk(drafts: list[int], chosen: list[int], faults: Faults) -> list[int]:
    kept = list[int]()
    for place, draft in enumerate(drafts):
        if draft < 0 and faults.sentinel_is_passed_over:
            continue
        choice = chosen[min(place + 1, len(chosen) - 1) if faults.own_row else place]
        is_judged = not (place == 0 and faults.first_is_not_judged) or draft < 0
        is_judged &= not (faults.last_is_not_judged and place == len(drafts) - 1) or draft < 0
        if is_judged and draft != choice:
            if faults.all_matches_count and draft >= 0:
                continue
            break
        kept.append(draft)
    bonus = -1 if faults.bonus_of_the_last_row else 0 if faults.bonus_of_the_first_row else len(kept)
    return [*kept, chosen[bonus]]


def _bonus_counted(outputs: Named, arguments: Named) -> None:
    outputs["num_accepted_drafts"] = outputs["num_accepted_drafts"] + np.int32(1)


def _whole_drafts_output(outputs: Named, arguments: Named) -> None:
    offsets = arguments["cu_num_drafts"].tolist()
    for request, (first, last) in enumerate(pairwise(offsets)):
        count = int(outputs["num_accepted_drafts"][request])
        outputs["output_tokens"][request, count + 1 : last - first] = arguments["draft_tokens"][
            first + count + 1 : last
        ]


MUTANTS = mutants_of(
    "verify_chain_greedy",
    ("OWN-4330", "Drafts that match after a mismatch are accepted too.", _verified(all_matches_count=True)),
    ("OWN-4331", "The first draft is accepted unverified.", _verified(first_is_not_judged=True)),
    ("OWN-4332", "The last draft is accepted unverified.", _verified(last_is_not_judged=True)),
    ("OWN-4333", "A draft is compared with the choice after it.", _verified(own_row=True)),
    ("OWN-4334", "The target's choices are counted like drafts.", _verified(rows_of_drafts=True)),
    ("OWN-4335", "A sentinel is passed over.", _verified(sentinel_is_passed_over=True)),
    ("OWN-4336", "Chains start at multiples of the average length.", _verified(offsets_are_even=True)),
    ("OWN-4337", "The bonus token comes from the last row.", _verified(bonus_of_the_last_row=True)),
    ("OWN-4338", "The bonus token comes from the first row.", _verified(bonus_of_the_first_row=True)),
    ("OWN-4339", "The count of drafts includes the bonus token.", returning(_bonus_counted)),
    ("OWN-4340", "Rejected drafts stay in the output.", returning(_whole_drafts_output)),
    ("OWN-4341", "Rows are padded with token 0.", with_outputs(output_tokens=lambda tokens: np.maximum(tokens, 0))),
)
