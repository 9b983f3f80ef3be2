"""Faults in what an idle rank runs its forwards on."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, returning, with_outputs
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages

_IDLE = "idle_attention_metadata"


def _longest_of_nothing(correct: Function, arguments: Named) -> Any:
    """Ask for the longest length of a batch, which an empty one does not have."""
    np.max(arguments["seq_lens"])
    return correct(**arguments)


def _no_new_key(outputs: Named, arguments: Named) -> None:
    outputs["cache_seqlens"] = np.asarray(arguments["seq_lens"], dtype=np.int32)


def _always_a_new_key(outputs: Named, arguments: Named) -> None:
    outputs["cache_seqlens"] = np.asarray(arguments["seq_lens"], dtype=np.int32) + np.int32(1)


def _queries_are_keys(outputs: Named, _: Named) -> None:
    outputs["cu_seqlens_q"] = outputs["cu_seqlens_k"].copy()


def _offsets_without_new_keys(outputs: Named, arguments: Named) -> None:
    outputs["cu_seqlens_k"] = np.cumsum([0, *arguments["seq_lens"]]).astype(np.int32)


def _ends_for_starts(outputs: Named, _: Named) -> None:
    outputs["cu_seqlens_k"] = np.append(outputs["cu_seqlens_k"][1:], outputs["cu_seqlens_k"][-1:])


MUTANTS = (
    Mutant("OWN-2359", _IDLE, "The longest length of no request is asked for.", answering(_longest_of_nothing)),
    Mutant("OWN-2350", _IDLE, "The row is the place in the batch.", given(rows_of_the_batch)),
    Mutant("OWN-2351", _IDLE, "A draft of a chain adds no key.", returning(_no_new_key)),
    Mutant("OWN-2352", _IDLE, "A backend without steps has a key more.", returning(_always_a_new_key)),
    Mutant("OWN-2353", _IDLE, "Dummy rows have no query.", with_outputs(cu_seqlens_q=np.zeros_like)),
    Mutant("OWN-2354", _IDLE, "Every key is a query.", returning(_queries_are_keys)),
    Mutant("OWN-2355", _IDLE, "Key offsets leave new keys out.", returning(_offsets_without_new_keys)),
    Mutant("OWN-2356", _IDLE, "Key offsets are one request late.", returning(_ends_for_starts)),
    Mutant("OWN-2357", _IDLE, "Slots stand where pages should.", returning(slots_for_pages)),
    Mutant("OWN-2358", _IDLE, "Every position is read as a page of its own.", returning(every_position_a_page)),
)
