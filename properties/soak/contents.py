"""What a worker has to hold of a text: its KV, its recurrent state, and what starts the next drafts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.assertion import require
from specsim.conformance.arrays import Array
from specsim.phases import DflashDraftInput, DraftInput
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.tags import ExpectedTags, check_window_tags
from specsim.properties.soak.setups import Setup
from specsim.reference.worker.pools import CARRIED
from specsim.simulation.memory import Memory, SlotRange
from specsim.simulation.models import pool_kinds
from specsim.simulation.models.toys import window_of
from specsim.simulation.requests import PromptChunk, Request

POOLS = ("target_kv", "draft_kv")


def check_contents(
    state: Mapping[str, Any], request: Request, expected: ExpectedTags, has_draft_tags: bool = True
) -> None:
    """Raise AssertionError unless every committed position of a request holds its tag in every buffer.

    ``has_draft_tags`` says whether the entries of the draft are tags of tokens.
    """
    expected.grow(request.fill)
    count = request.num_committed
    slots = np.array(request.slots[:count], dtype=np.int64)
    for name, kind, tags in [*zip(POOLS, expected.kinds, expected.tags, strict=True)][: 1 + has_draft_tags]:
        got = pool_kinds.tags_of(kind, state[name], slots)
        _require_entries(name, request, got, [*tags[: len(got), :count]])


def _require_entries(name: str, request: Request, got: Sequence[Array], expected: Sequence[Array]) -> None:
    """Raise AssertionError at the first position at which a component of a pool has another entry."""
    for component, (one, other) in enumerate(zip(got, expected, strict=True)):
        if not np.array_equal(one, other):
            (position, *_), *_ = np.argwhere(one != other).tolist()
            what = f"{name}[{component}] of request {request.request_id} at {position}"
            require(False, what, one[position].tolist(), other[position].tolist())


def check_states(state: Mapping[str, Any], request: Request, expected: ExpectedTags) -> None:
    """Raise AssertionError unless the recurrent state of a request is that after its last committed token."""
    if expected.kinds[0] not in pool_kinds.RECURRENT_KINDS:
        return
    expected.grow(request.fill)
    text = [0] * pool_kinds.CONVOLUTION_WIDTH + expected.heard(request.fill[: request.num_committed])
    after = [*([fold] for fold in expected.folds), text[-pool_kinds.CONVOLUTION_WIDTH :]]
    for component, (buffer, wanted) in enumerate(zip(state["states"], after, strict=True)):
        got = buffer[request.row].tolist()
        require(got == wanted, f"states[{component}] of request {request.request_id}", got, wanted)


def check_window(
    state: Mapping[str, Any], request: Request, memory: Memory, is_queued: bool, expected: ExpectedTags
) -> None:
    """Raise AssertionError unless the positions that a request's next forward sees through a window hold their tags.

    Where writes may be queued, the worker perhaps does not know yet which SWA slots these have.
    """
    if memory.swa is not None and "full_to_swa" in state:
        check_window_tags(state, request, memory, is_queued, expected.heard(request.fill))


class Fresh:
    """A worker in which nothing but one prefill has ever run: what it starts a draft with, every other one should."""

    def __init__(self, setup: Setup) -> None:
        sizes = setup.sizes()
        self._has_window = window_of(setup.model) > 0
        if self._has_window:
            sizes = replace(sizes, num_swa_slots=sizes.num_slots)
        self._worker = loop_on(setup, sizes=sizes)
        self._first = setup.room.page_size

    def carried(self, text: Sequence[int]) -> dict[str, Any]:
        """Return what waits in the row of a text whose last token has no entry in the target."""
        committed = len(text) - 1
        slots = tuple(range(self._first, self._first + committed))
        self._worker.assign_slots(
            [SlotRange(row=1, start=0, end=committed, slots=slots, swa_slots=slots if self._has_window else ())]
        )
        self._worker.prefill([1], [PromptChunk(text, 0, committed)])
        state = self._worker.state()
        return {name: state[name][1].tolist() for name in CARRIED if name in state}

    def draft_entries(self, kind: pool_kinds.PoolKind, count: int) -> list[Array]:
        """Return what the draft has of the first positions of the text that was looked at last."""
        slots = np.arange(self._first, self._first + count, dtype=np.int64)
        return pool_kinds.tags_of(kind, self._worker.state()["draft_kv"], slots)


def check_relay(state: Mapping[str, Array], request: Request) -> None:
    """Raise AssertionError unless the next draft of a request starts after what is committed, from its last token.

    A worker that keeps nothing to start a draft with has nothing to be compared.
    """
    if "seq_lens" not in state:
        return
    _compare_relay(state, request, {"seq_lens": request.num_committed, "bonus_tokens": request.fill[-1]})


def check_proposal(state: Mapping[str, Array], request: Request, fresh: Fresh) -> None:
    """Raise AssertionError unless the next draft of a request starts as that of a fresh prefill of its text."""
    _compare_relay(state, request, fresh.carried(request.fill))


def check_draft_entries(state: Mapping[str, Any], request: Request, fresh: Fresh, kind: pool_kinds.PoolKind) -> None:
    """Raise AssertionError unless the draft has of every committed position what a fresh prefill writes there."""
    fresh.carried(request.fill)
    count = request.num_committed
    slots = np.array(request.slots[:count], dtype=np.int64)
    _require_entries(
        POOLS[1], request, pool_kinds.tags_of(kind, state["draft_kv"], slots), fresh.draft_entries(kind, count)
    )


def check_hand_over(
    before: Mapping[str, Array], rows: Sequence[int], started_from: DraftInput | DflashDraftInput
) -> None:
    """Raise AssertionError unless an iteration started the drafts of some rows from what waited in them."""
    places = [place for place, row in enumerate(started_from.req_pool_indices.tolist()) if row in rows]
    at = started_from.req_pool_indices[places]
    for name in CARRIED:
        value = vars(started_from).get(name)
        if name in before and value is not None and not np.array_equal(value[places], before[name][at]):
            require(False, f"{name} of rows {at.tolist()}", value[places].tolist(), before[name][at].tolist())


def _compare_relay(state: Mapping[str, Array], request: Request, expected: Mapping[str, object]) -> None:
    for name, value in expected.items():
        got = state[name][request.row].tolist()
        require(got == value, f"{name} of request {request.request_id}", got, value)


def kept_of(state: Mapping[str, Any], setup: Setup) -> dict[str, bytes]:
    """Return all that an idle iteration leaves as it is: everything but row 0, slot 0 and the batch of V1."""
    kept = {"req_to_token": state["req_to_token"].tobytes()} if "req_to_token" in state else {}
    pools = dict(zip(POOLS, (setup.model.target_pool, setup.model.draft_pool), strict=True))
    for name, values in state.items():
        if not (setup.is_v1 and name in CARRIED):
            # NOTE: a pool of another kind has its slots upside down, and the dump at its end.
            live = slice(None, -1) if pools.get(name) is pool_kinds.PoolKind.OTHER else slice(1, None)
            layers = values if isinstance(values, list) else [values]
            kept |= {f"{name}[{layer}]": one[live].tobytes() for layer, one in enumerate(layers)}
    return kept


def check_kept(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Raise AssertionError unless an idle iteration left everything as it was."""
    changed = [name for name in before if after[name] != before[name]]
    require(not changed, "what an idle iteration changes", changed, "nothing but the dump")
