"""What an implementation declares that it does not take: strategies draw inside it, and laws know of it.

A size is drawn as ever and moved to the nearest one that is taken, so that nothing is drawn in vain and without limits
the draws are the same. Calls that come to lie outside in another way are not made (``OutsideLimits``). Who looks for a
smaller case keeps sizes below ceilings in the same way; what is declared goes before.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis.strategies import SearchStrategy

from specsim.conformance.limits import ACCEPTANCE, DRAFTS, NO_LIMITS, PROPOSALS, SCHEDULES, SWITCHES, Limits, Values
from specsim.contracts.contract import ScalarSpec
from specsim.operations import RECORDS
from specsim.properties.inside import having

T = TypeVar("T")

OF_THRESHOLDS = (
    "sampling_law.lower_thresholds_only_raise_acceptance",
    "sampling_law.lower_thresholds_never_shorten_a_chain",
)
OF_SCRATCH = ("acceptance.rejected_children_are_remembered",)
OF_ACCEPTANCE = (
    "sampling_frequency_law.trees_accept_no_fewer_drafts_than_token_by_token",
    "sampling_frequency_law.chains_accept_no_fewer_drafts_than_token_by_token",
    "sampling_frequency_law.blocks_keep_no_fewer_drafts_than_their_shares",
)
OF_DRAFTS = (
    "engine.acceptance_is_what_the_draft_promises",
    "worker.draft_cache_is_that_of_a_fresh_prefill",
    "worker.proposals_depend_on_the_committed_tokens_only",
    "worker_v1.proposals_depend_on_the_committed_tokens_only",
    "worker_v1.both_workers_decode_alike",
    "pool_kinds.storage_changes_no_phase",
    "sampled_engine.both_workers_sample_alike",
    "draft_sides_engine.drafts_are_right_as_far_as_they_know",
    "numbered_engine.drafts_go_on_as_if_no_request_had_rested",
    "numbered_engine.numbers_are_taken_as_the_reference_takes_them",
)
OF_ZERO_PROPOSALS = (
    "chains_from_logits.a_draft_that_its_own_row_forbids_is_rejected",
    "chains_from_logits.a_draft_that_only_the_target_likes_is_drawn",
    "chains_from_logits.a_rejection_that_leaves_nothing_draws_a_possible_token",
)
OF_SCHEDULES = (
    "schedules.lengths_stop_before_what_they_read",
    "schedules.batches_keep_the_joint_law",
    "schedules.callbacks_read_drafts_before_alone",
)
OF_PROPOSALS = (
    "proposals.markov_drafts_are_drawn_from_what_is_recorded",
    "proposals.selected_drafts_are_drawn_from_what_is_recorded",
    "proposals.chains_are_drawn_from_what_is_handed_over",
)
"""Properties whose every case has a threshold below 1, or that look at nothing but scratch memory, accepted
drafts, what workers draft, drafts that their own proposal excludes, what schedules read, or what drafts are drawn
from."""


@dataclass(frozen=True)
class Inside:
    """Limits, and what they leave of axes and scalars for the operations of a property."""

    limits: Limits = NO_LIMITS
    values: Mapping[str, Values] = field(default_factory=dict)


NOTHING = Inside()
_INSIDE: ContextVar[Inside] = ContextVar("inside", default=NOTHING)

ANY_SIZE: Mapping[str, int] = {}
_AT_MOST: ContextVar[Mapping[str, int]] = ContextVar("at_most", default=ANY_SIZE)


def drawing_within(limits: Limits, operations: Sequence[str]) -> AbstractContextManager[object]:
    """Let strategies and laws know, inside, what the operations that are called do not take."""
    return having(_INSIDE, NOTHING if limits == NO_LIMITS else Inside(limits, _common(limits, operations)))


def drawing_at_most(sizes: Mapping[str, int]) -> AbstractContextManager[object]:
    """Let strategies draw, inside, no size of an axis and no value of a scalar above the one that is named."""
    return having(_AT_MOST, sizes)


def is_within_limits() -> bool:
    """Return whether anything is declared or kept below a ceiling."""
    return _INSIDE.get() is not NOTHING or bool(_AT_MOST.get())


def limits() -> Limits:
    """Return what is declared."""
    return _INSIDE.get().limits


def nearest(name: str, value: int) -> int:
    """Return the size of an axis, or the value of a scalar, that is taken and next to a given one."""
    value = min(value, _AT_MOST.get().get(name, value))
    values = _INSIDE.get().values.get(name)
    if values is None or value in values:
        return value
    if isinstance(values, range):
        return values[0] if value < values[0] else values[-1]
    return min(values, key=lambda other: (abs(other - value), other))


def sized(name: str, sizes: SearchStrategy[int]) -> SearchStrategy[int]:
    """Return the strategy of sizes of an axis, or values of a scalar, each moved to the nearest that is taken."""
    is_bound = name in _INSIDE.get().values or name in _AT_MOST.get()
    return sizes.map(lambda value: nearest(name, value)) if is_bound else sizes


def taken(name: str, choices: Sequence[T]) -> Sequence[T]:
    """Return those of some values of a scalar that are taken; all of them if none is."""
    values = _INSIDE.get().values.get(name)
    return choices if values is None else [choice for choice in choices if choice in values] or choices


def leaves_out(name: str, declared: Limits) -> str:
    """Return what is declared if it leaves out the whole property of a name, or nothing."""
    group = name.partition(".")[0]
    left_out = (
        (group == "strided" and declared.is_contiguous, SWITCHES["CONTIGUOUS"]),
        (group == "empty" and not declared.takes_empty, SWITCHES["EMPTY"]),
        (name in OF_THRESHOLDS and not declared.takes_thresholds, SWITCHES["THRESHOLDS"]),
        (name in OF_SCRATCH and not declared.writes_scratch, SWITCHES["SCRATCH"]),
        (name in OF_ACCEPTANCE and declared.accepts_any_number, ACCEPTANCE),
        (name in OF_DRAFTS and declared.has_own_drafts, DRAFTS),
        (name in OF_ZERO_PROPOSALS and not declared.takes_zero_proposals, SWITCHES["ZERO_PROPOSALS"]),
        (name in OF_SCHEDULES and declared.accepts_equal_draws, SCHEDULES),
        (name in OF_PROPOSALS and declared.accepts_equal_draws, PROPOSALS),
    )
    return next((what for is_left_out, what in left_out if is_left_out), "")


def _common(declared: Limits, operations: Sequence[str]) -> dict[str, Values]:
    """Return what all operations take of each axis and scalar; where that is nothing, what the first of them takes."""
    common: dict[str, Values] = {}
    for operation in operations:
        axes = {
            spec.name: spec.axis
            for spec in (RECORDS[operation].contract.parameters if operation in RECORDS else ())
            if isinstance(spec, ScalarSpec) and spec.axis is not None
        }
        for name, values in declared.of(operation).items():
            for known in dict.fromkeys((name, axes.get(name, name))):
                common[known] = _both(common[known], values) or common[known] if known in common else values
    return common


def _both(one: Values, other: Values) -> Values:
    if isinstance(one, range) and isinstance(other, range):
        return range(max(one[0], other[0]), min(one[-1], other[-1]) + 1)
    few, many = (other, one) if isinstance(one, range) else (one, other)
    return tuple(value for value in few if value in many)
