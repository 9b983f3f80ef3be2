"""Faults in what an idle rank runs its forwards on."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, given, mutants_of, returning, with_outputs
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages


def _new_keys(count: int) -> Callable[[Function], Function]:
    def change(outputs: Named, arguments: Named) -> None:
        outputs["cache_seqlens"] = (arguments["seq_lens"] + count).astype(np.int32)

    return returning(change)


_every_key_a_query = edited("cu_seqlens_q[request] + 1", "cu_seqlens_q[request] + cache_seqlens[request]")
_without_new_keys = edited(
    "cu_seqlens_k[request] + cache_seqlens[request]", "cu_seqlens_k[request] + seq_lens[request]"
)
_ends_for_starts = with_outputs(cu_seqlens_k=lambda starts: np.append(starts[1:], starts[-1:]))

MUTANTS = mutants_of(
    "idle_attention_metadata",
    ("OWN-2359", "The longest length of no request is asked for.", given(lambda asked: asked["seq_lens"].max())),
    ("OWN-2350", "The row is the place in the batch.", given(rows_of_the_batch)),
    ("OWN-2351", "A draft of a chain adds no key.", _new_keys(0)),
    ("OWN-2352", "A backend without steps has a key more.", _new_keys(1)),
    ("OWN-2353", "Dummy rows have no query.", with_outputs(cu_seqlens_q=np.zeros_like)),
    ("OWN-2354", "Every key is a query.", _every_key_a_query),
    ("OWN-2355", "Key offsets leave new keys out.", _without_new_keys),
    ("OWN-2356", "Key offsets are one request late.", _ends_for_starts),
    ("OWN-2357", "Slots stand where pages should.", returning(slots_for_pages)),
    ("OWN-2358", "Every position is read as a page of its own.", returning(every_position_a_page)),
)
