"""Faults of runs on padded forwards, and of ranks that should run them together."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from specsim.phases import ForwardBatch, SyncPlan
from specsim.properties.mutants.record import Function, Mutant, overriding
from specsim.simulation.models.agreement import Agreement, ForwardKind

_MODEL, _MEETING = "PaddedModel", "Meeting"


def _entered(change: Any) -> Any:
    """Inject a fault into what forwards read: ``change`` sees the batch and its padding, and returns another one."""

    def enter(correct: Function, model: Any, *args: Any) -> tuple[ForwardBatch, ForwardBatch]:
        before, padded = correct(model, *args)
        return before, change(before, padded)

    return overriding(_enter=enter)


def _last_slot(before: ForwardBatch, padded: ForwardBatch) -> ForwardBatch:
    slots = padded.out_cache_loc.copy()
    slots[before.num_tokens :] = before.out_cache_loc[-1:].sum()
    return replace(padded, out_cache_loc=slots)


def _padding_in_front(before: ForwardBatch, padded: ForwardBatch) -> ForwardBatch:
    extra = padded.num_tokens - before.num_tokens
    return replace(padded, input_ids=np.roll(padded.input_ids, extra))


def _one_slot_late(before: ForwardBatch, padded: ForwardBatch) -> ForwardBatch:
    is_padded = padded.num_tokens > before.num_tokens
    return replace(padded, out_cache_loc=np.roll(padded.out_cache_loc, 1)) if is_padded else padded


def _positions_lost(before: ForwardBatch, padded: ForwardBatch) -> ForwardBatch:
    is_padded = padded.num_tokens > before.num_tokens
    return replace(padded, positions=padded.positions * 0) if is_padded else padded


def _stale_hidden_states(before: ForwardBatch, padded: ForwardBatch) -> ForwardBatch:
    if padded.hidden_states is None or padded.num_tokens == before.num_tokens:
        return padded
    return replace(padded, hidden_states=np.roll(padded.hidden_states, 1, axis=0))


def _more_keys(correct: Function, model: Any, keys: Any, count: int, width: int, prefix: int) -> Any:
    """Give live rows of a padded batch a key less."""
    longer = correct(model, keys, count, width, prefix)
    if not count or not len(keys.cache_seqlens):
        return longer
    lengths = longer.cache_seqlens.copy()
    first, after = longer.page_table[0, : lengths[0]].copy(), longer.page_table.copy()
    after[0, : lengths[0]] = np.roll(first, 1)
    return replace(longer, page_table=after)


def _reused_dummy(correct: Function, model: Any, batch: Any, *args: Any) -> Any:
    """Give rows of padding the row in which padding came last, after the requests of that batch."""
    known, dummy = model.inner, vars(model).get("dummy_row", 0)

    def prefill(longer: Any, *rest: Any) -> Any:
        rows = longer.req_pool_indices.copy()
        rows[len(batch.req_pool_indices) :] = dummy
        return known.prefill(replace(longer, req_pool_indices=rows), *rest)

    model.inner = SimpleNamespace(prefill=prefill)
    try:
        return correct(model, batch, *args)
    finally:
        model.inner = known
        model.dummy_row = batch.req_pool_indices.max(initial=dummy)


def _one_prompt_longer(correct: Function, model: Any, keys: Any, count: int, width: int, prefix: int) -> Any:
    """Take the first row of padding after prompts for one more token of the last of them."""
    longer = correct(model, keys, count, width, prefix)
    num_live = len(keys.cache_seqlens)
    if not count or not num_live or prefix:
        return longer
    starts = longer.cu_seqlens_q.copy()
    starts[num_live] += 1
    lengths = longer.cache_seqlens.copy()
    lengths[num_live - 1] += 1
    lengths[num_live] = 0
    return replace(longer, cu_seqlens_q=starts, cache_seqlens=lengths)


def _no_step_when_idle(correct: Function, model: Any, kind: ForwardKind, *args: Any) -> None:
    if kind is not ForwardKind.FROZEN_STEP:
        correct(model, kind, *args)


def _windows_do_not_grow(correct: Function, model: Any, kind: ForwardKind, layer: int = 0) -> int | None:
    width: int | None = correct(model, kind)
    return width


def _drafts_of_the_neighbour(correct: Function, model: Any, batch: Any, *args: Any) -> Any:
    """Return the proposals of a padded batch of blocks one request late."""
    output = correct(model, batch, *args)
    num_drafts = batch.num_draft_tokens - 1
    return replace(output, probabilities=np.roll(output.probabilities, num_drafts, axis=0))


def _first_row_a_request(correct: Function, model: Any, batch: Any, *args: Any) -> Any:
    """Keep of a padded batch of blocks as many rows of each request as it has tokens."""
    output = correct(model, batch, *args)
    num_nodes = batch.num_draft_tokens
    rows = np.arange(len(output.probabilities))
    kept = np.minimum(rows // (num_nodes - 1) * num_nodes + rows % (num_nodes - 1), max(len(rows) - 1, 0))
    return replace(output, probabilities=output.probabilities[kept])


def _no_extend_when_idle(correct: Function, model: Any, kind: ForwardKind, *args: Any) -> None:
    if kind is not ForwardKind.DRAFT_EXTEND:
        correct(model, kind, *args)


def _extend_when_idle_alone(correct: Function, model: Any, batch: Any, *args: Any) -> Any:
    """Run the draft's first forward twice where the batch is empty."""
    if not len(batch.req_pool_indices):
        correct(model, batch, *args)
    return correct(model, batch, *args)


def _leaves_when_done(correct: Function, meeting: Any) -> bool:
    return False


def _always_as_before(correct: Function, meeting: Any, kind: ForwardKind, *args: Any) -> Agreement:
    """Agree on the rows of this rank alone, whatever others have."""
    agreed: Agreement = correct(meeting, kind, *args)
    num_requests, _, width, *_ = args
    return agreed if kind.is_prefill or not num_requests else Agreement(num_requests * width, width)


def _rows_of_the_neighbour(correct: Function, meeting: Any, plan: SyncPlan) -> int:
    rows: int = plan.num_tokens[meeting._place - 1]
    return rows


def _everybody_has_the_own_rows(correct: Function, meeting: Any, wanted: tuple[int, int], reported: Any) -> Any:
    own = reported[meeting.group.rank]
    return correct(
        meeting, wanted, {rank: own if answer[:2] == own[:2] else answer for rank, answer in reported.items()}
    )


def _offset_of_the_neighbour(correct: Function, meeting: Any, input_ids: Any) -> Any:
    meeting._place -= 1 if meeting._place else 0
    return correct(meeting, input_ids)


MUTANTS = (
    Mutant("OWN-2360", _MODEL, "Rows of padding write the slot of the last live one.", _entered(_last_slot)),
    Mutant("OWN-2361", _MODEL, "Token ids are padded in front, all else at the end.", _entered(_padding_in_front)),
    Mutant("OWN-2362", _MODEL, "Slots of a padded batch are one row late.", _entered(_one_slot_late)),
    Mutant("OWN-2363", _MODEL, "Positions are lost where a batch is padded.", _entered(_positions_lost)),
    Mutant("OWN-2364", _MODEL, "Hidden states are those of the neighbour.", _entered(_stale_hidden_states)),
    Mutant("OWN-2365", _MODEL, "A padded batch reads its keys one late.", overriding(_with_rows=_more_keys)),
    Mutant("OWN-2372", _MODEL, "A window has the rows of the one before.", overriding(_width_in=_windows_do_not_grow)),
    Mutant("OWN-2373", _MODEL, "An idle rank drafts nothing of its own.", overriding(run_padding=_no_step_when_idle)),
    Mutant("OWN-2374", _MODEL, "Blocks propose a request late.", overriding(_draft_block=_drafts_of_the_neighbour)),
    Mutant("OWN-2375", _MODEL, "Roots of blocks count as rows.", overriding(_draft_block=_first_row_a_request)),
    Mutant("G05", _MODEL, "Padding is used again, and is a request by then.", overriding(_prefill=_reused_dummy)),
    Mutant("OWN-2376", _MODEL, "A row of padding is taken for a token.", overriding(_with_rows=_one_prompt_longer)),
    Mutant("S14", _MODEL, "An idle rank does not run the extend.", overriding(run_padding=_no_extend_when_idle)),
    Mutant("OWN-2366", _MODEL, "An idle batch extends twice.", overriding(draft_extend=_extend_when_idle_alone)),
    Mutant("OWN-2367", _MEETING, "A rank leaves when it has no request.", overriding(attend=_leaves_when_done)),
    Mutant("OWN-2368", _MEETING, "A live rank runs its own rows.", overriding(__call__=_always_as_before)),
    Mutant("OWN-2369", _MEETING, "A rank runs the rows of its neighbour.", overriding(_rows=_rows_of_the_neighbour)),
    Mutant("OWN-2370", _MEETING, "Others are taken to be like oneself.", overriding(_plan=_everybody_has_the_own_rows)),
    Mutant("OWN-2371", _MEETING, "Rows go where the neighbour's are.", overriding(gather=_offset_of_the_neighbour)),
)
