"""Faults of runs on padded forwards, and of ranks that should run them together or decide alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of, overriding

_ROWS = "keys_with_rows(keys, count, width, prefix, self._pad)"
_BLOCKS = "output[: before.num_requests * (width - 1)]"
_EXTENDED = "self._draft_extend(kind, batch, kv, self._agreed(kind, batch, self._width_in(kind)))"


def _entered(change: str) -> Callable[[Function], Function]:
    """Inject a fault into what forwards read: ``before`` is a batch as it came, ``padded`` the same with padding."""
    return edited(
        "return before, padded",
        f"extra = padded.num_tokens - before.num_tokens\nreturn before, {change}",
        within="PaddedModel._enter",
    )


def one_late(longer: Any, keys: Any, count: int) -> Any:
    """Return keys of a padded batch of which the first request reads each one place late."""
    if not count or not len(keys.cache_seqlens):
        return longer
    length, table = longer.cache_seqlens[0], longer.page_table.copy()
    table[0, :length] = np.roll(table[0, :length], 1)
    return replace(longer, page_table=table)


def one_prompt_longer(longer: Any, keys: Any, count: int, prefix: int) -> Any:
    """Return keys that take the first row of padding after prompts for one more token of the last of them."""
    num_live = len(keys.cache_seqlens)
    if not count or not num_live or prefix:
        return longer
    starts, lengths = longer.cu_seqlens_q.copy(), longer.cache_seqlens.copy()
    starts[num_live] += 1
    lengths[num_live - 1] += 1
    lengths[num_live] = 0
    return replace(longer, cu_seqlens_q=starts, cache_seqlens=lengths)


_ROOTS_COUNT_AS_ROWS = edited(
    f"return DraftOutput({_BLOCKS}, None)",
    f"""
    live = {_BLOCKS}
    rows = np.arange(len(live))
    kept = np.minimum(rows // (width - 1) * width + rows % (width - 1), max(len(rows) - 1, 0))
    return DraftOutput(live[kept], None)
    """,
    within="PaddedModel._draft_block",
)

_PADDING_IS_USED_AGAIN = edited(
    "extra = padded.num_tokens - before.num_tokens",
    """
    extra = padded.num_tokens - before.num_tokens
    dummy_row = vars(self).get("dummy_row", 0)
    self.dummy_row = batch.req_pool_indices.max(initial=dummy_row)
    """,
    "self._pad(batch.req_pool_indices, 0, extra, 0)",
    "self._pad(batch.req_pool_indices, 0, extra, dummy_row)",
    within="PaddedModel._prefill",
)

_OTHERS_ARE_LIKE_ONESELF = edited(
    "kind = ForwardKind(wanted[0])",
    """
    mine, kind = answers[self.group.rank], ForwardKind(wanted[0])
    answers = {rank: mine if answer[:2] == mine[:2] else answer for rank, answer in answers.items()}
    """,
    within="Meeting._plan",
)

_VALUES = "self._form.values_of(said, own)"
_PROPOSED = "replace(output, probabilities=self._said('proposals', output.probabilities))"

MUTANTS = (
    *mutants_of("PaddedModel",
        ("OWN-2360", "Rows of padding write the slot of the last live one.",
         _entered("replace(padded, out_cache_loc=np.append(padded.out_cache_loc[: before.num_tokens], "
                  "np.repeat(before.out_cache_loc[-1:].sum(), extra)))")),
        ("OWN-2361", "Token ids are padded in front, all else at the end.",
         _entered("replace(padded, input_ids=np.roll(padded.input_ids, extra))")),
        ("OWN-2362", "Slots of a padded batch are one row late.",
         _entered("replace(padded, out_cache_loc=np.roll(padded.out_cache_loc, 1)) if extra else padded")),
        ("OWN-2363", "Positions are lost where a batch is padded.",
         _entered("replace(padded, positions=padded.positions * 0) if extra else padded")),
        ("OWN-2364", "Hidden states are those of the neighbour.",
         _entered("replace(padded, hidden_states=np.roll(padded.hidden_states, 1, axis=0)) "
                  "if extra and padded.hidden_states is not None else padded")),
        ("OWN-2365", "A padded batch reads its keys one late.",
         edited(_ROWS, f"one_late({_ROWS}, keys, count)", within="PaddedModel._with_rows", one_late=one_late)),
        ("OWN-2372", "A window has the rows of the one before.",
         edited("self._extend_width + layer", "self._extend_width", within="PaddedModel._width_in")),
        ("OWN-2373", "An idle rank drafts nothing of its own.",
         edited("self._draft_frozen(idle.frozen_beams(), kv, agreed)", "", within="PaddedModel.run_padding")),
        ("OWN-2374", "Blocks propose a request late.",
         edited(_BLOCKS, f"np.roll({_BLOCKS}, width - 1, axis=0)", within="PaddedModel._draft_block")),
        ("OWN-2375", "Roots of blocks count as rows.", _ROOTS_COUNT_AS_ROWS),
        ("G05", "Padding is used again, and is a request by then.", _PADDING_IS_USED_AGAIN),
        ("OWN-2376", "A row of padding is taken for a token.",
         edited(_ROWS, f"one_prompt_longer({_ROWS}, keys, count, prefix)", within="PaddedModel._with_rows",
                one_prompt_longer=one_prompt_longer)),
        ("S14", "An idle rank does not run the extend.",
         edited("self._draft_extend(kind, idle.extend(), of_draft, agreed)",
                "if kind is not ForwardKind.DRAFT_EXTEND:\n"
                "    self._draft_extend(kind, idle.extend(), of_draft, agreed)",
                within="PaddedModel.run_padding")),
        ("OWN-2366", "An idle batch extends twice.",
         edited(f"return {_EXTENDED}", f"if not len(batch.req_pool_indices):\n    {_EXTENDED}\nreturn {_EXTENDED}",
                within="PaddedModel.draft_extend")),
    ),
    *mutants_of("Meeting",
        ("OWN-2367", "A rank leaves when it has no request.", overriding(attend=lambda correct, meeting: False)),
        ("OWN-2368", "A live rank runs its own rows.",
         edited("Agreement(self._rows(plan), width)",
                "Agreement(self._rows(plan), width) if kind.is_prefill or not num_requests "
                "else Agreement(num_requests * num_tokens_per_req, num_tokens_per_req)",
                within="Meeting.__call__")),
        ("OWN-2369", "A rank runs the rows of its neighbour.",
         edited("self._place", "self._place - 1", within="Meeting._rows")),
        ("OWN-2370", "Others are taken to be like oneself.", _OTHERS_ARE_LIKE_ONESELF),
        ("OWN-2371", "Rows go where the neighbour's are.",
         edited("self._place", "max(self._place - 1, 0)", within="Meeting.gather")),
    ),
    *mutants_of("OneVoiceModel",
        ("S15", "Each rank samples its own decisions.", edited(_VALUES, "own", within="OneVoiceModel._said")),
        ("OWN-2380", "Ranks agree on decisions, not on drafts.",
         edited(f"return {_PROPOSED}", f"{_PROPOSED}\nreturn output", within="OneVoiceModel._draft")),
        ("OWN-2381", "Ranks agree where all are greedy.",
         edited("replace(output, logits=self._said('logits', output.logits), sampling_logits=sampled)",
                "replace(output, logits=self._said('logits', output.logits))", within="OneVoiceModel._target")),
        ("OWN-2382", "Each rank has its own first token.",
         edited("self._target(self.inner.prefill(batch, kv, states))", "self.inner.prefill(batch, kv, states)",
                within="OneVoiceModel.prefill")),
        ("OWN-2383", "All ranks speak at once.",
         edited("broadcast_decision(what, self._form.words_of(own), self.group)",
                "self.group.sum(what, self._form.words_of(own))", within="OneVoiceModel._said")),
    ),
)  # fmt: skip
