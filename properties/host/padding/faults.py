"""Faults in padding: what stands after live rows, and what is forgotten when it is taken off."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.phases import ForwardBatch, ForwardMode, ForwardOutput
from specsim.phases.forward import FIELDS, Along
from specsim.properties.mutants.record import Function, Mutant, Named, answering

_PAD, _TRIM = "pad_inputs_to_size", "post_forward_mlp_sync_batch"


def _padded(change: Any) -> Any:
    """Inject a fault that returns other fields than the correct padding; it sees what was padded, and by what."""

    def answer(correct: Function, arguments: Named) -> ForwardBatch:
        padded: ForwardBatch = correct(**arguments)
        return replace(padded, **change(padded, arguments["batch"], arguments))

    return answering(answer)


def _ending(name: str, value_of: Callable[[Any, ForwardBatch], Any]) -> Any:
    """Inject a fault that pads a field of requests, where it is there, with other values than the correct ones."""

    def change(padded: ForwardBatch, batch: ForwardBatch, _: Named) -> Named:
        if getattr(padded, name) is None:
            return {}
        values = getattr(padded, name).copy()
        values[batch.num_requests :] = value_of(values[batch.num_requests :], batch)
        return {name: values}

    return _padded(change)


def _trimmed(*left: str) -> Any:
    """Inject a fault that leaves some fields as the forward read them."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, output = correct(**arguments)
        stale = {name: getattr(arguments["padded"], name) for name in left}
        kept = _in_agreement(batch, stale)
        return (arguments["padded"] if kept is None else kept), output

    return answering(answer)


def _in_agreement(batch: ForwardBatch, changed: Named) -> ForwardBatch | None:
    """Return the batch with other fields, whose lengths need not agree; None for what no batch can hold."""
    try:
        return replace(batch, **changed)
    except ValueError:
        return None


def _last_slot(padded: ForwardBatch, batch: ForwardBatch, _: Named) -> Named:
    """Return slots in which the padding has that of the last live token."""
    if batch.out_cache_loc is None or not batch.num_tokens:
        return {}
    slots = padded.out_cache_loc.copy()
    slots[batch.num_tokens :] = batch.out_cache_loc[-1]
    return {"out_cache_loc": slots}


def _rows_in_front(padded: ForwardBatch, batch: ForwardBatch, _: Named) -> Named:
    return {"req_pool_indices": np.roll(padded.req_pool_indices, padded.num_requests - batch.num_requests)}


def _copies_of_no_length(padded: ForwardBatch, batch: ForwardBatch, _: Named) -> Named:
    if padded.seq_lens_cpu is None:
        return {}
    grown = padded.num_requests - batch.num_requests
    return {"seq_lens_cpu": padded.seq_lens_cpu[: batch.num_requests] + (0,) * grown}


def _sum_of_live_lengths(_: ForwardBatch, batch: ForwardBatch, __: Named) -> Named:
    return {"seq_lens_sum": batch.seq_lens_sum}


def _sum_from_nothing(padded: ForwardBatch, batch: ForwardBatch, arguments: Named) -> Named:
    grown = padded.num_requests - batch.num_requests
    return {"seq_lens_sum": (batch.seq_lens_sum or 0) + arguments["seq_len_fill_value"] * grown}


def _everything_is_live(padded: ForwardBatch, _: ForwardBatch, __: Named) -> Named:
    return {"num_live_tokens": padded.num_tokens}


def _nothing_is_live(_: ForwardBatch, batch: ForwardBatch, __: Named) -> Named:
    return {"num_live_tokens": 0 if batch.mode is ForwardMode.DECODE else batch.num_tokens}


def _rows_of_the_batch_alone(padded: ForwardBatch, batch: ForwardBatch, _: Named) -> Named:
    return {"extend_num_tokens": batch.extend_num_tokens}


def _absent_fields_appear(padded: ForwardBatch, _: ForwardBatch, __: Named) -> Named:
    if padded.hidden_states is None:
        return {"hidden_states": np.zeros((padded.num_tokens, 2), dtype=np.int64)}
    return {}


def _at_the_width_of_a_path(correct: Function, arguments: Named) -> Any:
    """Return a padding whose requests have a row less than the forward's."""
    batch: ForwardBatch = arguments["batch"]
    width = batch.num_tokens_per_req
    if batch.mode is not ForwardMode.DRAFT_EXTEND_V2 or width is None or width < 2 or not batch.num_requests:
        return correct(**arguments)
    rows = max(arguments["num_tokens"] // width * (width - 1), batch.num_tokens)
    rows = -(-rows // width) * width
    return correct(**{**arguments, "num_tokens": rows})


def _to(num_rows_of: Callable[[int, int, ForwardBatch], int]) -> Any:
    """Inject a padding to other rows; it takes how many are wanted, those of a request, and the batch."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch: ForwardBatch = arguments["batch"]
        width = 1 if batch.mode is ForwardMode.EXTEND else batch.num_tokens_per_req or 1
        return correct(**{**arguments, "num_tokens": num_rows_of(arguments["num_tokens"], width, batch)})

    return answering(answer)


def _one_request_early(num_rows: int, width: int, batch: ForwardBatch) -> int:
    return max(num_rows - width, batch.num_requests * width, batch.num_tokens)


def _output(rows_of: Any) -> Any:
    """Inject a fault that keeps other rows of the logits and of the hidden states."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, _ = correct(**arguments)
        given = arguments["output"]
        rows = rows_of(arguments["before"], given)
        hidden = given.hidden_states
        return batch, ForwardOutput(given.logits[rows], None if hidden is None else hidden[rows])

    return answering(answer)


def _rows_of_requests(before: ForwardBatch, _: ForwardOutput) -> slice:
    return slice(before.num_requests)


def _rows_at_the_end(before: ForwardBatch, given: ForwardOutput) -> slice:
    return slice(len(given.logits) - before.num_tokens, None)


def _one_row_early(before: ForwardBatch, _: ForwardOutput) -> slice:
    return slice(max(before.num_tokens - 1, 0))


def _hidden_states_of_last_tokens(correct: Function, arguments: Named) -> Any:
    batch, output = correct(**arguments)
    hidden = output.hidden_states
    return batch, ForwardOutput(output.logits, None if hidden is None else hidden[: batch.num_requests])


def _crash_without_hidden_states(correct: Function, arguments: Named) -> Any:
    batch, output = correct(**arguments)
    rows = len(output.hidden_states)
    return batch, ForwardOutput(output.logits, output.hidden_states[:rows])


def _left_padded(correct: Function, arguments: Named) -> Any:
    """Return the padded batch where its requests are those of before, and trim nothing but the output."""
    _, output = correct(**arguments)
    return arguments["padded"], output


def _mode_of_the_extend(correct: Function, arguments: Named) -> Any:
    batch, output = correct(**arguments)
    return replace(batch, mode=arguments["padded"].mode), output


def _forgotten(*names: str) -> Any:
    """Inject a fault that gives the forward's own entries of live rows back, written over, instead of the kept ones."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, output = correct(**arguments)
        padded, before = arguments["padded"], arguments["before"]
        sizes = {Along.TOKEN: before.num_tokens, Along.REQUEST: before.num_requests}
        values = {name: getattr(padded, name) for name in names}
        cut = {name: None if value is None else value[: sizes[FIELDS[name]]] for name, value in values.items()}
        return replace(batch, **cut), output

    return answering(answer)


MUTANTS = (
    Mutant("X09", _PAD, "Tokens of padding have the slot of the last live one.", _padded(_last_slot)),
    Mutant(
        "OWN-2300",
        _PAD,
        "Requests of padding have the row of their neighbour.",
        _ending("req_pool_indices", lambda _, batch: batch.req_pool_indices[-1:].sum()),
    ),
    Mutant("G06", _PAD, "Rows are padded in front, everything else at the end.", _padded(_rows_in_front)),
    Mutant("OWN-2301", _PAD, "Requests of padding have no length.", _ending("seq_lens", lambda *_: 0)),
    Mutant("OWN-2302", _PAD, "The host's copies of their lengths are 0.", _padded(_copies_of_no_length)),
    Mutant("OWN-2303", _PAD, "The sum of lengths stays that of live requests.", _padded(_sum_of_live_lengths)),
    Mutant("OWN-2304", _PAD, "A sum that no one knows counts as 0.", _padded(_sum_from_nothing)),
    Mutant(
        "OWN-2305", _PAD, "An extend of fixed width has no row for padding.", _ending("extend_seq_lens", lambda *_: 0)
    ),
    Mutant(
        "OWN-2306",
        _PAD,
        "The two counts are padded with different values.",
        _ending("num_accepted_tokens", lambda counts, _: counts + 1),
    ),
    Mutant("G12", _PAD, "Rows of padding count as live.", _padded(_everything_is_live)),
    Mutant("OWN-2346", _PAD, "No row of a draft counts as live.", _padded(_nothing_is_live)),
    Mutant("OWN-2307", _PAD, "An extend tells of its own rows only.", _padded(_rows_of_the_batch_alone)),
    Mutant("OWN-2308", _PAD, "Hidden states appear where there are none.", _padded(_absent_fields_appear)),
    Mutant("OWN-2345", _PAD, "Requests of an extend have the rows of a path.", answering(_at_the_width_of_a_path)),
    Mutant("OWN-2309", _PAD, "Padding ends a request early.", _to(_one_request_early)),
    Mutant("OWN-2310", _PAD, "Padding ends a request late.", _to(lambda num_rows, width, _: num_rows + width)),
    Mutant(
        "G14",
        _PAD,
        "Rows that make no request are rounded up, unsaid.",
        _to(lambda num_rows, width, _: -(-num_rows // width) * width),
    ),
    Mutant("OWN-2311", _TRIM, "Nothing but the output is trimmed.", answering(_left_padded)),
    Mutant("OWN-2312", _TRIM, "Both counts stay padded.", _trimmed("num_accepted_drafts", "num_accepted_tokens")),
    Mutant("OWN-2313", _TRIM, "Slots were kept after they had been padded.", _trimmed("out_cache_loc")),
    Mutant("OWN-2314", _TRIM, "Token ids stay padded.", _trimmed("input_ids")),
    Mutant("OWN-2315", _TRIM, "Candidates stay padded.", _trimmed("topk_p", "topk_index")),
    Mutant("OWN-2316", _TRIM, "Names of adapters stay padded.", _trimmed("lora_ids")),
    Mutant("OWN-2317", _TRIM, "The fill stays in the sum of lengths.", _trimmed("seq_lens_sum")),
    Mutant("OWN-2318", _TRIM, "The number of live rows stays.", _trimmed("num_live_tokens")),
    Mutant("OWN-2319", _TRIM, "An extend goes on with the padded number of rows.", _trimmed("extend_num_tokens")),
    Mutant("OWN-2320", _TRIM, "Positions are those that the forward left.", _forgotten("positions")),
    Mutant("OWN-2321", _TRIM, "Lengths are those that the forward left.", _forgotten("seq_lens")),
    Mutant("OWN-2322", _TRIM, "Hidden states are those that the forward left.", _forgotten("hidden_states")),
    Mutant("OWN-2323", _TRIM, "Counts are those that the forward left.", _forgotten("num_accepted_tokens")),
    Mutant("OWN-2324", _TRIM, "A decode stays the extend that it was run as.", answering(_mode_of_the_extend)),
    Mutant("X11", _TRIM, "Every forward yields one row a request.", _output(_rows_of_requests)),
    Mutant("OWN-2325", _TRIM, "The last rows are kept.", _output(_rows_at_the_end)),
    Mutant("OWN-2326", _TRIM, "The last live row is cut off.", _output(_one_row_early)),
    Mutant("OWN-2327", _TRIM, "A row of padding is kept.", _output(lambda before, _: slice(before.num_tokens + 1))),
    Mutant("OWN-2328", _TRIM, "Hidden states are cut to one a request.", answering(_hidden_states_of_last_tokens)),
    Mutant("OWN-2329", _TRIM, "Forwards without hidden states crash.", answering(_crash_without_hidden_states)),
)
