"""Faults in what a draft writes to its cache, and in what its beams read of it: they cost acceptance, never a token.

Beams change places and slots do not, so that a beam reads what lies at its own place; engines that put that right draft
other trees than those of the specification.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.record import Function, Mutant, Named, edits_of_sides, given, wrapped

Array = Any


def _queries_after_a_prefix(arguments: Named) -> list[range]:
    """Return the rows of each request that extends a committed prefix; a prefill has none."""
    starts = arguments["cu_seqlens_q"].tolist()
    return [
        range(first, last)
        for first, last, length in zip(starts, starts[1:], arguments["cache_seqlens"].tolist(), strict=False)
        if length > last - first
    ]


def _keeping(rows_of: Callable[[range], range]) -> Callable[[Function], Function]:
    """Inject a fault that leaves the old entries of some rows of every request where they were."""

    def inject(correct: Function) -> Function:
        def call(arguments: Named) -> Any:
            slots, buffers = arguments["out_cache_loc"], arguments["kv_buffers"]
            before = [buffer[slots].copy() for buffer in buffers]
            returned = correct(**arguments)
            kept = [row for queries in _queries_after_a_prefix(arguments) for row in rows_of(queries)]
            for buffer, old in zip(buffers, before, strict=True):
                buffer[slots[kept]] = old[kept]
            return returned

        return wrapped(correct, call)

    return inject


def _last_token_from_the_row_before(arguments: Named) -> None:
    tokens = arguments["input_ids"].copy()
    for queries in _queries_after_a_prefix(arguments):
        tokens[list(queries)[1:]] = arguments["input_ids"][list(queries)[:-1]]
    arguments["input_ids"] = np.asarray(tokens)


_EXTEND = "draft_extend_forward"

MUTANTS = (
    Mutant("D09", _EXTEND, "A row is written for the token of the row before.", given(_last_token_from_the_row_before)),
    Mutant("X04", _EXTEND, "Only the last row is written; older draft rows stay.", _keeping(lambda rows: rows[:-1])),
    Mutant("X06", _EXTEND, "The last row of an extend is not written.", _keeping(lambda rows: rows[-1:])),
    *edits_of_sides(
        [EAGLE_V2],
        """
        @@ select_top_k_tokens in StepwiseSide.draft
        OWN-3140 A beam reads the slots of its ancestors, not of its place.
        - drafted = self._model.draft_step(batch, pools.open(Side.DRAFT, batch.out_cache_loc))
        + before, hidden = [[] for _ in batch.input_ids], batch.hidden_states
        + if step:
        +     is_parent = (hidden[:, None] == drafted.hidden_states[None]).all(axis=2)
        +     before = [written[int(row.argmax())] for row in is_parent]
        + written = [[*slots, int(slot)] for slots, slot in zip(before, batch.out_cache_loc, strict=True)]
        + indices = batch.keys.kv_indices.copy()
        + for end, slots in zip(batch.keys.kv_indptr[1:].tolist(), written, strict=True):
        +     indices[end - len(slots) : end] = slots
        + batch = replace(batch, keys=replace(batch.keys, kv_indices=indices))
        + drafted = self._model.draft_step(batch, pools.open(Side.DRAFT, batch.out_cache_loc))
        """,
        replace=replace,
    ),
)
