"""Laws of padding: live rows keep what they have, rows of padding have the dump's, and all of it is put back."""

from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np

from specsim.conformance.backend import Backend
from specsim.phases import ExtendLens, ForwardBatch, ForwardMode, ForwardOutput, PaddingMode, SyncPlan
from specsim.phases.forward import FIELDS, Along
from specsim.properties.host.padding.strategy import Padding, extend_lengths, paddings, rounds
from specsim.properties.laws.checks import for_each, refuses, require, require_equal, states
from specsim.rejection import Reason

_LAST_AXIS = ("mrope_positions",)


def padding_is_the_dump_behind_live_rows(backend: Backend, case: Padding) -> None:
    """Every field has its live entries in front and what the dump needs after them, both counts alike."""
    batch, before = case.batch, _copied(case.batch)
    padded = backend.host("pad_inputs_to_size")(*case.arguments)
    _require_batch("the batch before", batch, before)
    width = batch.num_tokens_per_req or 1
    is_prefill = batch.mode is ForwardMode.EXTEND
    num_requests = batch.num_requests if is_prefill else case.num_tokens // width
    fills = {
        **dict.fromkeys(("seq_lens", "seq_lens_cpu"), case.seq_len_fill_value),
        **dict.fromkeys(("num_accepted_drafts", "num_accepted_tokens"), case.count_fill_value),
        "lora_ids": None,
        "room_ids": -1,
    }
    if batch.mode is ForwardMode.DRAFT_EXTEND_V2:
        fills |= dict.fromkeys(("extend_seq_lens", "extend_seq_lens_cpu"), width)
    sizes = {Along.TOKEN: case.num_tokens, Along.REQUEST: num_requests}
    for name, along in FIELDS.items():
        expected = _lengthened(getattr(batch, name), name, sizes[along], fills.get(name, 0))
        _require_field("the padded batch", name, getattr(padded, name), expected)
    grown = case.seq_len_fill_value * (num_requests - batch.num_requests)
    total = None if batch.seq_lens_sum is None else batch.seq_lens_sum + grown
    require(padded.seq_lens_sum == total, "seq_lens_sum of the padded batch", padded.seq_lens_sum, total)
    rows = None if batch.extend_num_tokens is None else case.num_tokens
    require(padded.extend_num_tokens == rows, "extend_num_tokens", padded.extend_num_tokens, rows)
    live = batch.num_tokens
    require(padded.num_live_tokens == live, "num_live_tokens", padded.num_live_tokens, live)
    for name in ("mode", "num_tokens_per_req", "captures_every_row"):
        _require_field("the padded batch", name, getattr(padded, name), getattr(batch, name))


def padding_and_trimming_change_no_field(backend: Backend, case: Padding) -> None:
    """After its forward, which may write into what was padded, a batch has every field that it had."""
    before = _copied(case.batch)
    padded = backend.host("pad_inputs_to_size")(*case.arguments)
    for name in FIELDS:
        value = getattr(padded, name)
        if isinstance(value, np.ndarray):
            value[...] = 1
    trimmed, _ = backend.host("post_forward_mlp_sync_batch")(padded, case.batch, case.output)
    _require_batch("the batch after the forward", trimmed, before)


def outputs_are_those_of_live_rows(backend: Backend, case: Padding) -> None:
    """Of logits and hidden states the live rows are kept, as many as the mode has, and absent ones stay so."""
    batch = case.batch
    padded = backend.host("pad_inputs_to_size")(*case.arguments)
    _, output = backend.host("post_forward_mlp_sync_batch")(padded, batch, case.output)
    rows, hidden_rows = _rows_of(batch)
    require_equal("logits", output.logits, case.output.logits[:rows])
    if case.output.hidden_states is None:
        require(output.hidden_states is None, "hidden_states", output.hidden_states, None)
    else:
        require_equal("hidden_states", output.hidden_states, case.output.hidden_states[:hidden_rows])


def beside_prompts_a_decode_is_an_extend_of_one_token(backend: Backend, case: Padding) -> None:
    """It has one new token after all others; it is padded as an extend, and after its forward decodes again."""
    if case.batch.mode is not ForwardMode.DECODE:
        return
    turn = backend.host("as_one_token_extend")
    if case.batch.num_tokens != case.batch.num_requests:
        refuses(Reason.NOT_DIVISIBLE, lambda: turn(case.batch))
        return
    before, size = _copied(case.batch), case.batch.num_requests
    turned = turn(case.batch)
    ones = np.ones_like(before.seq_lens)
    expected = replace(
        before,
        mode=ForwardMode.EXTEND,
        extend_num_tokens=size,
        extend_seq_lens=ones,
        extend_prefix_lens=before.seq_lens - ones,
        extend_seq_lens_cpu=None if before.seq_lens_cpu is None else (1,) * size,
        extend_prefix_lens_cpu=None if before.seq_lens_cpu is None else tuple((before.seq_lens - ones).tolist()),
    )
    _require_batch("the extend", turned, expected)
    padded = backend.host("pad_inputs_to_size")(turned, size + 3, case.seq_len_fill_value)
    require(padded.num_requests == size, "requests of the padded extend", padded.num_requests, size)
    trimmed, _ = backend.host("post_forward_mlp_sync_batch")(padded, case.batch, ForwardOutput(None, None))
    _require_batch("the decode after it", trimmed, before)


def sizes_that_cut_a_request_are_refused(backend: Backend, case: Padding) -> None:
    """Neither fewer rows than there are, nor some rows of a request, nor rows for fewer requests."""
    pad, batch = backend.host("pad_inputs_to_size"), case.batch
    if batch.num_tokens:
        refuses(Reason.COUNT_OUT_OF_RANGE, lambda: pad(batch, batch.num_tokens - 1))
    width = batch.num_tokens_per_req or 1
    if batch.mode is ForwardMode.EXTEND or width == 1:
        return
    refuses(Reason.NOT_DIVISIBLE, lambda: pad(batch, case.num_tokens + 1))
    if batch.num_tokens <= (batch.num_requests - 1) * width:
        refuses(Reason.COUNT_OUT_OF_RANGE, lambda: pad(batch, (batch.num_requests - 1) * width))


def ranks_run_whole_requests_that_groups_can_share(backend: Backend, case: dict[str, Any]) -> None:
    """Each rank has the least rows that do, or the most that a rank has; the buffer holds what they come to."""
    plan: SyncPlan = backend.host("plan_mlp_sync_batch")(**case)
    width, shared = case["num_tokens_per_req"], (case["attn_tp_size"], case["attn_cp_size"])
    own = []
    for count in case["global_num_tokens"]:
        rows = count
        while any(rows % size for size in (width, *shared)):
            rows += 1
        own.append(rows)
    dp_size, with_prompts = len(own), case["is_extend_in_batch"]
    is_longest = 2 * sum(own) >= max(own) * dp_size and not (with_prompts and dp_size > 1)
    expected_mode = PaddingMode.MAX_LEN if is_longest else PaddingMode.SUM_LEN
    require(plan.mode is expected_mode, "the mode of padding", plan.mode, expected_mode)
    expected = [max(own)] * dp_size if is_longest else own
    require_equal("rows of the ranks", plan.num_tokens, expected)
    require(plan.buffer_len == sum(expected), "rows of the buffer", plan.buffer_len, sum(expected))
    is_turned = with_prompts and is_longest
    require(plan.turns_into_extend == is_turned, "turns_into_extend", plan.turns_into_extend, is_turned)


def lengths_that_the_host_lacks_are_not_waited_for(backend: Backend, case: dict[str, Any]) -> None:
    """On the device or on the host, prefix and width are the same; the sum is known with all lengths or not at all."""
    prepare, width = backend.host("get_draft_extend_lens"), case["num_draft_tokens"]
    lengths = case["seq_lens"].tolist()
    known: ExtendLens = prepare(case["seq_lens"], tuple(lengths), width)
    unknown: ExtendLens = prepare(case["seq_lens"].view(OnDevice), None, width)
    widths = [width] * len(lengths)
    for lens, kind in ((known, tuple), (unknown, OnDevice)):
        require_equal("prefix_lens", np.array(lens.prefix_lens, dtype=np.int64), lengths)
        require_equal("extend_lens", np.array(lens.extend_lens, dtype=np.int64), widths)
        require(lens.extend_lens_cpu == tuple(widths), "extend_lens_cpu", lens.extend_lens_cpu, tuple(widths))
        for name in ("prefix_lens", "extend_lens"):
            got = getattr(lens, name)
            require(isinstance(got, kind), f"the class of {name}", type(got).__name__, kind.__name__)
    for name in ("prefix_lens", "extend_lens"):
        require(getattr(unknown, name).dtype == np.int32, f"dtype of {name}", getattr(unknown, name).dtype, "int32")
    forward = tuple(length + width for length in lengths)
    require(known.forward_lens_cpu == forward, "forward_lens_cpu", known.forward_lens_cpu, forward)
    require(known.forward_lens_sum == sum(forward), "forward_lens_sum", known.forward_lens_sum, sum(forward))
    for name in ("forward_lens_cpu", "forward_lens_sum"):
        require(getattr(unknown, name) is None, f"{name} without lengths", getattr(unknown, name), None)


class OnDevice(np.ndarray[Any, Any]):
    """An array that complains about whatever would wait for a device."""

    def tolist(self) -> NoReturn:
        """Refuse to come to the host."""
        raise AssertionError("lengths of the device = brought to the host, but should be left where they are")

    def __iter__(self) -> NoReturn:
        """Refuse to come to the host, entry by entry."""
        self.tolist()

    def item(self, *_: Any) -> NoReturn:
        """Refuse to come to the host."""
        self.tolist()


def _rows_of(batch: ForwardBatch) -> tuple[int, int]:
    """Return the rows of logits and of hidden states that a mode keeps."""
    if batch.mode in (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2):
        width = batch.num_tokens_per_req or 1
        return batch.num_requests * width, batch.num_requests * width
    if batch.captures_every_row and batch.mode is ForwardMode.EXTEND:
        return batch.num_requests, batch.num_tokens
    return batch.num_requests, batch.num_requests


def _lengthened(value: Any, name: str, size: int, fill: Any) -> Any:
    """Return a field with so many entries, those after its own filled."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple([*value, *[fill] * size][:size])
    shape = (*value.shape[:-1], size) if name in _LAST_AXIS else (size, *value.shape[1:])
    expected = np.full(shape, fill, dtype=value.dtype)
    expected[tuple(slice(length) for length in value.shape)] = value
    return expected


def _copied(batch: ForwardBatch) -> ForwardBatch:
    copies: dict[str, Any] = {
        name: getattr(batch, name).copy() for name in FIELDS if isinstance(getattr(batch, name), np.ndarray)
    }
    return replace(batch, **copies)


def _require_batch(what: str, got: ForwardBatch, expected: ForwardBatch) -> None:
    for field in fields(expected):
        _require_field(what, field.name, getattr(got, field.name), getattr(expected, field.name))


def _require_field(what: str, name: str, got: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        require(isinstance(got, np.ndarray), f"{name} of {what}", type(got).__name__, "an array")
        require(got.dtype == expected.dtype, f"dtype of {name} of {what}", got.dtype, expected.dtype)
        require_equal(f"{name} of {what}", got, expected)
    else:
        is_same = got is None if expected is None else got == expected
        require(is_same, f"{name} of {what}", got, expected)


_PAD, _TRIM = "pad_inputs_to_size", "post_forward_mlp_sync_batch"

PROPERTIES = states(
    "padding",
    (for_each(padding_is_the_dump_behind_live_rows), paddings, _PAD, "P30"),
    (for_each(padding_and_trimming_change_no_field), paddings, (_PAD, _TRIM), "P30"),
    (for_each(outputs_are_those_of_live_rows), paddings, (_PAD, _TRIM), "P30"),
    (
        for_each(beside_prompts_a_decode_is_an_extend_of_one_token),
        paddings,
        ("as_one_token_extend", _PAD, _TRIM),
        "P30",
    ),
    (for_each(sizes_that_cut_a_request_are_refused), paddings, _PAD, "P36"),
    (ranks_run_whole_requests_that_groups_can_share, rounds, "plan_mlp_sync_batch", "P57"),
    (lengths_that_the_host_lacks_are_not_waited_for, extend_lengths, "get_draft_extend_lens", "P32"),
)
