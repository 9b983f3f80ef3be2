"""Faults in padding: what stands after live rows, and what is forgotten when it is taken off."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Function, Named, answering, edits_of, mutants_by_operation


def _trimmed(*left: str) -> Callable[[Function], Function]:
    """Inject a fault that leaves some fields as the forward read them; all of them where lengths would disagree."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, output = correct(**arguments)
        padded = arguments["padded"]
        with suppress(ValueError):
            return replace(batch, **{name: getattr(padded, name) for name in left}), output
        return padded, output

    return answering(answer)


def _cut(left: str) -> Callable[[Function], Function]:
    """Inject a fault that cuts a field of the forward to the live entries, and does not put back what they were."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, output = correct(**arguments)
        own, padded = getattr(batch, left), getattr(arguments["padded"], left)
        return batch if own is None else replace(batch, **{left: padded[: len(own)]}), output

    return answering(answer)


MUTANTS = (
    *edits_of(
        """
    @@ pad_inputs_to_size
    X09 Tokens of padding have the slot of the last live one.
      changed: dict[str, Any] = {"num_live_tokens": batch.num_tokens}
    + fills["out_cache_loc"] = 0 if batch.out_cache_loc is None else [0, *batch.out_cache_loc][-1]
    OWN-2300 Requests of padding have the row of their neighbour.
      changed: dict[str, Any] = {"num_live_tokens": batch.num_tokens}
    + fills["req_pool_indices"] = batch.req_pool_indices[-1:].sum()
    G06 Rows are padded in front, everything else at the end.
    - return replace(batch, **changed)
    + changed["req_pool_indices"] = np.roll(changed["req_pool_indices"], grown[Along.REQUEST])
    + return replace(batch, **changed)
    OWN-2301 Requests of padding have no length.
    - dict.fromkeys(_LENGTHS, seq_len_fill_value) => {"seq_lens": 0, "seq_lens_cpu": seq_len_fill_value}
    OWN-2302 The host's copies of their lengths are 0.
    - dict.fromkeys(_LENGTHS, seq_len_fill_value) => {"seq_lens": seq_len_fill_value, "seq_lens_cpu": 0}
    OWN-2303 The sum of lengths stays that of live requests.
    - batch.seq_lens_sum + seq_len_fill_value * grown[Along.REQUEST] => batch.seq_lens_sum
    OWN-2304 A sum that no one knows counts as 0.
    - batch.seq_lens_sum is not None => True
    - batch.seq_lens_sum + seq_len_fill_value * grown[Along.REQUEST]
    + (batch.seq_lens_sum or 0) + seq_len_fill_value * grown[Along.REQUEST]
    OWN-2305 An extend of fixed width has no row for padding.
    - dict.fromkeys(_EXTENDS, _extend_length_of_padding(batch))
    + {"extend_seq_lens": 0, "extend_seq_lens_cpu": _extend_length_of_padding(batch)}
    OWN-2306 The two counts are padded with different values.
    - dict.fromkeys(_COUNTS, count_fill_value) => dict(zip(_COUNTS, (count_fill_value, count_fill_value + 1)))
    G12 Rows of padding count as live.
    - {"num_live_tokens": batch.num_tokens} => {"num_live_tokens": num_tokens}
    OWN-2346 No row of a draft counts as live.
    - {"num_live_tokens": batch.num_tokens}
    + {"num_live_tokens": batch.num_tokens if batch.mode is not ForwardMode.DECODE else 0}
    OWN-2307 An extend tells of its own rows only.
    - changed["extend_num_tokens"] = num_tokens
    OWN-2308 Hidden states appear where there are none.
    - return replace(batch, **changed)
    + changed.setdefault("hidden_states", np.zeros((num_tokens, 2), dtype=np.int64))
    + return replace(batch, **changed)
    OWN-2345 Requests of an extend have the rows of a path.
    - num_requests = _padded_requests(batch, num_tokens)
    + width = batch.num_tokens_per_req or 0
    + if batch.mode is ForwardMode.DRAFT_EXTEND_V2 and width > 1 and batch.num_requests:
    +     num_tokens = ceil_to(max(num_tokens // width * (width - 1), batch.num_tokens), width)
    + num_requests = _padded_requests(batch, num_tokens)
    OWN-2309 Padding ends a request early.
    - num_requests = _padded_requests(batch, num_tokens)
    + width = 1 if batch.mode is ForwardMode.EXTEND else batch.num_tokens_per_req or 1
    + num_tokens = max(num_tokens - width, batch.num_requests * width, batch.num_tokens)
    + num_requests = _padded_requests(batch, num_tokens)
    OWN-2310 Padding ends a request late.
    - num_requests = _padded_requests(batch, num_tokens)
    + width = 1 if batch.mode is ForwardMode.EXTEND else batch.num_tokens_per_req or 1
    + num_tokens = num_tokens + width
    + num_requests = _padded_requests(batch, num_tokens)
    G14 Rows that make no request are rounded up, unsaid.
    - num_requests = _padded_requests(batch, num_tokens)
    + width = 1 if batch.mode is ForwardMode.EXTEND else batch.num_tokens_per_req or 1
    + num_tokens = ceil_to(num_tokens, width)
    + num_requests = _padded_requests(batch, num_tokens)
    @@ post_forward_mlp_sync_batch
    OWN-2311 Nothing but the output is trimmed.
    - replace(padded, **restored, num_live_tokens=before.num_live_tokens) => padded
    X11 Every forward yields one row a request.
    - rows_with_logits(before) => before.num_requests
    OWN-2325 The last rows are kept.
    - output.logits[:kept] => output.logits[len(output.logits) - kept :]
    - output.hidden_states[:num_hidden] => output.hidden_states[len(output.hidden_states) - num_hidden :]
    OWN-2326 The last live row is cut off.
    - rows_with_logits(before) => max(rows_with_logits(before) - 1, 0)
    OWN-2327 A row of padding is kept.
    - rows_with_logits(before) => rows_with_logits(before) + 1
    OWN-2328 Hidden states are cut to one a request.
    - output.hidden_states[:num_hidden] => output.hidden_states[: before.num_requests]
    OWN-2329 Forwards without hidden states crash.
    - output.hidden_states is None => False
    """
    ),
    *mutants_by_operation(
        post_forward_mlp_sync_batch=(
            ("OWN-2312", "Both counts stay padded.", _trimmed("num_accepted_drafts", "num_accepted_tokens")),
            ("OWN-2313", "Slots were kept after they had been padded.", _trimmed("out_cache_loc")),
            ("OWN-2314", "Token ids stay padded.", _trimmed("input_ids")),
            ("OWN-2315", "Candidates stay padded.", _trimmed("topk_p", "topk_index")),
            ("OWN-2316", "Names of adapters stay padded.", _trimmed("lora_ids")),
            ("OWN-2317", "The fill stays in the sum of lengths.", _trimmed("seq_lens_sum")),
            ("OWN-2318", "The number of live rows stays.", _trimmed("num_live_tokens")),
            ("OWN-2319", "An extend goes on with the padded number of rows.", _trimmed("extend_num_tokens")),
            ("OWN-2320", "Positions are those that the forward left.", _cut("positions")),
            ("OWN-2321", "Lengths are those that the forward left.", _cut("seq_lens")),
            ("OWN-2322", "Hidden states are those that the forward left.", _cut("hidden_states")),
            ("OWN-2323", "Counts are those that the forward left.", _cut("num_accepted_tokens")),
            ("OWN-2324", "A decode stays the extend that it was run as.", _trimmed("mode")),
        )
    ),
)
