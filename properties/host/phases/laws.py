"""Laws of hand-overs: what a batch carries follows its requests, and no phase takes what another one reads."""

import warnings
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.phases import (
    DflashDraftInput,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftExtendInput,
    FrozenKVMTPDraftInput,
    Phase,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
)
from specsim.properties.composite import composite
from specsim.properties.host.phases.strategy import (
    Form,
    Joinable,
    Numbers,
    batch,
    batches,
    every_phase,
    idle_beside,
    in_every_form,
)
from specsim.properties.laws.checks import for_each, outcome_of, require, require_equal, state
from specsim.rejection import Reason


def shares(phase: Joinable) -> list[dict[str, Any]]:
    """Return what each request owns of a batch's object, field by field: its entry, or its segment of tokens."""
    counts = phase.num_accepted_tokens_cpu if isinstance(phase, EagleDraftExtendInput) else ()
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    owned: list[dict[str, Any]] = [{} for _ in range(phase.num_requests)]
    for field in fields(phase):
        value = getattr(phase, field.name)
        is_flat = field.name in ("input_ids", "hidden_states", "out_cache_loc", "positions") and bool(counts)
        for request, share in enumerate(owned):
            if value is None or isinstance(value, int):
                share[field.name] = value
            elif is_flat:
                share[field.name] = np.asarray(value)[ends[request] - counts[request] : ends[request]].tolist()
            else:
                share[field.name] = np.asarray(value)[request].tolist()
    return owned


def require_shares(what: str, phase: Any, form: Joinable, expected: Sequence[dict[str, Any]]) -> None:
    """Raise AssertionError unless an object has the class of another and its requests own what is expected."""
    require(type(phase) is type(form), f"the class of {what}", type(phase).__name__, type(form).__name__)
    got = shares(phase)
    require(len(got) == len(expected), f"requests of {what}", len(got), len(expected))
    for request, (one, other) in enumerate(zip(got, expected, strict=True)):
        for name, value in other.items():
            require(one[name] == value, f"{name} of request {request} of {what}", one[name], value)


def filter_keeps_whole_requests_in_order(backend: Backend, case: tuple[Joinable, list[int]]) -> None:
    """Each request that stays keeps every field and its whole segment, in the order asked for."""
    phase, indices = case
    owned = shares(phase)
    filtered = backend.host("filter_batch")(phase, indices)
    require_shares("the filtered batch", filtered, phase, [owned[request] for request in indices])
    require_shares("the batch before", phase, phase, owned)


def merge_appends_every_field(backend: Backend, case: Sequence[Joinable]) -> None:
    """The requests of the second batch follow those of the first, with every field, and neither batch changes."""
    one, other = case
    before = shares(one), shares(other)
    merged = backend.host("merge_batch")(one, other)
    require_shares("the merged batch", merged, one, before[0] + before[1])
    require_shares("the first batch", one, one, before[0])
    require_shares("the second batch", other, other, before[1])


def merge_is_associative(backend: Backend, case: Sequence[Joinable]) -> None:
    """In which order three batches are merged does not matter."""
    one, two, three = case
    merge = backend.host("merge_batch")
    require_shares("the merge to the left", merge(merge(one, two), three), one, shares(merge(one, merge(two, three))))


def filter_after_merge_is_merge_of_filters(
    backend: Backend, case: tuple[Sequence[Joinable], list[int], list[int]]
) -> None:
    """Filtering a merged batch is merging the filtered ones."""
    (one, other), left, right = case
    merge, keep = backend.host("merge_batch"), backend.host("filter_batch")
    together = keep(merge(one, other), left + [one.num_requests + request for request in right])
    require_shares("the filtered merge", together, one, shares(merge(keep(one, left), keep(other, right))))


def an_idle_batch_is_neutral(backend: Backend, case: tuple[Joinable, Joinable]) -> None:
    """Merging with a batch without requests changes nothing, whether hidden states are carried or not."""
    phase, idle = case
    merge = backend.host("merge_batch")
    require_shares("a batch merged with nothing", merge(phase, idle), phase, shares(phase))
    require_shares("nothing merged with a batch", merge(idle, phase), phase, shares(phase))


def an_already_filtered_batch_is_only_counted(backend: Backend, case: tuple[Joinable, int]) -> None:
    """What verify has filtered stays as it is; another number of requests is an error, or a warning if asked for."""
    phase, count = case
    keep = backend.host("filter_batch")
    owned = shares(phase)
    if isinstance(phase, DraftInput) and phase.future_indices is not None:
        kept = keep(phase, range(phase.num_requests), has_been_filtered=True)
        require_shares("the relayed batch", kept, phase, owned)
        return
    places = [2 * request for request in range(count)]
    if count == phase.num_requests:
        require_shares("the batch", keep(phase, places, has_been_filtered=True), phase, owned)
        return
    _require_reason("another number", Reason.INCONSISTENT_LENGTHS, keep, phase, places, has_been_filtered=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = keep(phase, places, has_been_filtered=True, strict=False)
    require(len(caught) == 1, "warnings", len(caught), 1)
    require_shares("the batch", kept, phase, owned[:count])


def what_cannot_be_joined_is_refused(backend: Backend, case: tuple[Phase, Phase]) -> None:
    """Only two objects of one class merge, a verify object neither merges nor filters, and no place is outside."""
    merge, keep = backend.host("merge_batch"), backend.host("filter_batch")
    for phase, other in (case, case[::-1]):
        if not isinstance(phase, DraftInput | EagleDraftExtendInput):
            _require_reason("filtering", TypeError, keep, phase, [0])
            _require_reason("merging", TypeError, merge, phase, other)
            _require_reason("merging", TypeError, merge, other, phase)
            continue
        for place in (phase.num_requests, -1):
            _require_reason(f"request {place}", Reason.COUNT_OUT_OF_RANGE, keep, phase, [place])
        _require_reason("merging two classes", Reason.WRONG_PHASE, merge, phase, _twin(phase))


def each_phase_takes_its_own_class(backend: Backend, phase: Phase) -> None:
    """An object passes where its own tag is expected and is rejected everywhere else; so is what is no phase."""
    expect = backend.host("expect_phase")
    for tag in PhaseTag:
        expected = None if tag is phase.tag else Reason.WRONG_PHASE
        _require_reason(f"{phase.tag} as {tag}", expected, expect, phase, tag)
        _require_reason(f"fields as {tag}", Reason.WRONG_PHASE, expect, vars(phase), tag)


def inputs_are_of_the_draft_or_of_a_verify(backend: Backend, phase: Phase) -> None:
    """Draft and extend inputs are read by the draft model, verify inputs by the target, a verify output by neither."""
    is_verify = isinstance(phase, VerifyInput)
    is_draft = not is_verify and not isinstance(phase, VerifyOutput)
    for name, expected in (("is_draft_input", is_draft), ("is_verify_input", is_verify)):
        got = backend.host(name)(phase)
        require(got is expected, f"{name} of {phase.tag}", got, expected)


def frozen_kv_conversion_changes_only_the_tag(backend: Backend, phase: Phase) -> None:
    """A converted extend input has the other tag and the very same fields; one that has it already is itself."""
    convert = backend.host("to_frozen_kv_mtp_draft_extend_input")
    if not isinstance(phase, EagleDraftExtendInput):
        _require_reason(phase.tag, Reason.WRONG_PHASE, convert, phase)
        return
    converted = convert(phase)
    require(converted.tag is PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND, "tag", converted.tag, "that of Frozen-KV MTP")
    for field in fields(EagleDraftExtendInput):
        is_same = getattr(converted, field.name) is getattr(phase, field.name)
        require(is_same, field.name, getattr(converted, field.name), getattr(phase, field.name))
    if isinstance(phase, FrozenKVMTPDraftExtendInput):
        require(converted is phase, "the converted input", "a copy", "the input itself")
    again = convert(converted)
    require(again is converted, "the input converted twice", "a copy", "the input converted once")


def ranks_count_tokens_by_their_phase(backend: Backend, case: tuple[Phase, list[int]]) -> None:
    """Token counts of all ranks are request counts times the rows of a request, and the rows that yield logits."""
    phase, counts = case
    expected = _coefficients(phase)
    if isinstance(expected, Reason):
        _require_reason(phase.tag, expected, backend.host("get_spec_adjust_token_coefficient"), phase)
        return
    got = backend.host("get_spec_adjust_token_coefficient")(phase)
    require(tuple(got) == expected, f"the coefficients of {phase.tag}", got, expected)
    adjusted = backend.host("get_spec_adjusted_global_num_tokens")(phase, counts, counts)
    for name, tokens, factor in zip(("tokens", "tokens with logits"), adjusted, expected, strict=True):
        require_equal(f"the {name} of the ranks", tokens, [count * factor for count in counts])


def _coefficients(phase: Phase) -> tuple[int, int] | Reason:
    if isinstance(phase, EagleDraftExtendInput):
        count = phase.num_tokens_per_req
        return Reason.MISSING_ARGUMENT if count < 0 else (count, 1)
    if isinstance(phase, DraftInput):
        return Reason.MISSING_ARGUMENT if phase.topk_index is None else (phase.topk_index.shape[1],) * 2
    if isinstance(phase, VerifyOutput):
        return Reason.WRONG_PHASE
    if isinstance(phase, DflashDraftInput):
        return 1, 1
    return phase.num_draft_tokens, phase.num_draft_tokens


def _twin(phase: Joinable) -> Joinable:
    """Return an object with the same fields under the other tag."""
    pairs = ((DraftInput, FrozenKVMTPDraftInput), (EagleDraftExtendInput, FrozenKVMTPDraftExtendInput))
    twins: dict[type, Any] = {one: other for pair in pairs for one, other in (pair, pair[::-1])}
    twin: Joinable = twins[type(phase)](**{field.name: getattr(phase, field.name) for field in fields(phase)})
    return twin


def _require_reason(what: str, expected: Reason | type[TypeError] | None, function: Any, *args: Any, **kw: Any) -> None:
    """Raise AssertionError unless a call is refused for the reason, with TypeError, or, for None, is not refused."""
    outcome = outcome_of(partial(function, *args, **kw), TypeError)
    got = outcome if isinstance(outcome, Reason) or outcome is TypeError else None
    require(got is expected, f"the rejection of {what}", got, expected)


@composite
def filters(draw: st.DrawFn, form: Form, numbers: Numbers) -> tuple[Joinable, list[int]]:
    """Draw a batch and some of its requests in any order."""
    phase = draw(batch(form, numbers))
    return phase, draw(_places(phase))


@composite
def merges_and_filters(draw: st.DrawFn, form: Form, numbers: Numbers) -> tuple[list[Joinable], list[int], list[int]]:
    """Draw two batches of one form and some requests of each."""
    phases = [draw(batch(form, numbers)) for _ in range(2)]
    return phases, draw(_places(phases[0])), draw(_places(phases[1]))


@composite
def counted(draw: st.DrawFn, form: Form, numbers: Numbers) -> tuple[Joinable, int]:
    """Draw a batch and a number of requests, most often its own."""
    phase = draw(batch(form, numbers))
    return phase, draw(st.one_of(st.just(phase.num_requests), st.integers(0, 5)))


@composite
def pairs(draw: st.DrawFn) -> list[tuple[Phase, Phase]]:
    """Draw an object of every class and form, each beside another one."""
    phases = draw(every_phase())
    return list(zip(phases, draw(st.permutations(phases)), strict=True))


@composite
def counted_by_ranks(draw: st.DrawFn) -> list[tuple[Phase, list[int]]]:
    """Draw an object of every class and form, and request counts of some ranks."""
    phases = draw(every_phase())
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    return [(phase, counts) for phase in phases]


@composite
def _places(draw: st.DrawFn, phase: Joinable) -> list[int]:
    """Draw some requests in any order; those of the simplest case are the last ones."""
    order = draw(st.permutations(range(phase.num_requests)))
    return order[draw(st.integers(0, len(order))) :] if draw(st.booleans()) else order[1:]


_FILTER, _MERGE = ("filter_batch",), ("merge_batch",)
_JOIN = (*_FILTER, *_MERGE)
_CONVERT = ("to_frozen_kv_mtp_draft_extend_input",)
_SIZES = ("get_spec_adjust_token_coefficient", "get_spec_adjusted_global_num_tokens")

PROPERTIES = tuple(
    state("phases", for_each(law), strategy, operations, catalogue)
    for law, strategy, operations, catalogue in (
        (filter_keeps_whole_requests_in_order, partial(in_every_form, filters), _FILTER, "P33"),
        (merge_appends_every_field, partial(batches, 2), _MERGE, "P33"),
        (merge_is_associative, partial(batches, 3), _MERGE, "P33"),
        (filter_after_merge_is_merge_of_filters, partial(in_every_form, merges_and_filters), _JOIN, "P33"),
        (an_idle_batch_is_neutral, partial(in_every_form, idle_beside), _MERGE, "P33"),
        (an_already_filtered_batch_is_only_counted, partial(in_every_form, counted), _FILTER, "P33"),
        (what_cannot_be_joined_is_refused, pairs, _JOIN, "P59"),
        (each_phase_takes_its_own_class, every_phase, ("expect_phase",), "P59"),
        (inputs_are_of_the_draft_or_of_a_verify, every_phase, ("is_draft_input", "is_verify_input"), "P59"),
        (frozen_kv_conversion_changes_only_the_tag, every_phase, _CONVERT, "P59"),
        (ranks_count_tokens_by_their_phase, counted_by_ranks, _SIZES, "P60"),
    )
)
