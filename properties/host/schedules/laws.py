"""Laws of schedules: how many drafts are verified may be decided by what is judged already, and by nothing after it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.distribution import Outcome
from specsim.properties.host.schedules import strategy as strategies
from specsim.properties.host.schedules.exact_law import Drafts, Form, Lengths, Schedule, all_drafts, joint_law
from specsim.properties.host.schedules.stopping_points import first_unpredictable
from specsim.properties.laws.checks import for_each, refuses, require, require_equal, states
from specsim.properties.laws.frequencies import Inconclusive
from specsim.properties.strategies.sampling_scenes import ChainScene
from specsim.rejection import Reason

CHOOSE, ASK = "choose_verify_lens", "should_verify"

PARTS = 101
"""A prime, so that no row of parts of it has a probability of a proposal."""


def lengths_lie_within_the_drafts(backend: Backend, case: strategies.ScheduleCase) -> None:
    """Of every request the root and no more than its drafts are verified, and the same whenever the same is asked."""
    chosen_lengths(backend, case)


def lengths_stop_before_what_they_read(backend: Backend, case: strategies.ScheduleCase) -> None:
    """Drafts that are not judged change no length of the batch, unless that changes no request's law either."""
    _require_stops(backend, case, chosen_lengths(backend, case))


def batches_keep_the_joint_law(backend: Backend, cases: Sequence[strategies.ScheduleCase]) -> None:
    """Over all drafts, what the requests of a batch output has the product of the target's laws."""
    num_verified = Fraction(0)
    for case in cases:
        schedule = chosen_lengths(backend, case)
        for form in forms_of(backend):
            law = joint_law(case.scenes, schedule, form)
            num_verified += law.num_verified
            counts = f"{law.num_verified} drafts verified, {law.num_accepted_drafts} accepted on average"
            require(law.distance == 0, f"law of a batch accepted {form}, {counts},", law, "0, the product law")
    if not num_verified:
        raise Inconclusive("no draft of a batch is verified, also where the budget allows all of them")


def a_given_budget_bounds_the_drafts(backend: Backend, case: strategies.ScheduleCase) -> None:
    """No more drafts are verified than are allowed, and no fewer of any request where more are."""
    arrays = all_drafts(case.scenes)
    for drafts in (arrays[0], arrays[len(arrays) // 2], arrays[-1]):
        before = (0,) * len(drafts)
        for budget in range(sum(case.num_drafts) + 2):
            history = replace(case.history, verify_token_budget=budget)
            lengths = _chosen(backend, replace(case, history=history), drafts)
            what = f"verified drafts of a budget of {budget}"
            require(sum(lengths) <= budget, what, lengths, f"{budget} at most")
            is_more = all(one >= other for one, other in zip(lengths, before, strict=True))
            require(is_more, what, lengths, f"at least those of a budget of {budget - 1}, {before}")
            before = lengths


def survivals_of_another_owner_change_nothing(backend: Backend, case: strategies.OwnerCase) -> None:
    """What is left in a row that has changed its owner decides nothing."""
    one = case.case
    other = replace(one, history=replace(one.history, survivals=case.survivals))
    for drafts in all_drafts(one.scenes)[:2]:
        require_equal("verified drafts", _chosen(backend, other, drafts), _chosen(backend, one, drafts))


def bad_confidences_are_refused(backend: Backend, case: tuple[strategies.ScheduleCase, float]) -> None:
    """A confidence that is no probability is refused, and so is a number of drafts below 0."""
    if not backend.rejects:
        return
    batch, bad = case
    drafts = all_drafts(batch.scenes)[0]
    reason = Reason.NAN_SCORE if np.isnan(bad) else Reason.PROBABILITY_OUT_OF_RANGE
    arguments = batch.arguments(drafts)
    arguments["confidences"][1, 0] = bad
    refuses(reason, lambda: backend.host(CHOOSE)(**arguments))
    below = batch.arguments(drafts) | {"history": replace(batch.history, verify_token_budget=-1)}
    refuses(Reason.COUNT_OUT_OF_RANGE, lambda: backend.host(CHOOSE)(**below))


def bad_confidences_are_refused_draft_by_draft(backend: Backend, case: tuple[strategies.ScheduleCase, float]) -> None:
    """A callback refuses a confidence that is no probability."""
    if backend.rejects:
        reason = Reason.NAN_SCORE if np.isnan(case[1]) else Reason.PROBABILITY_OUT_OF_RANGE
        refuses(reason, lambda: backend.host(ASK)(0, 1, (), case[1]))


def callbacks_read_drafts_before_alone(backend: Backend, case: strategies.ScheduleCase) -> None:
    """A callback decides about a draft by the drafts before it, and by no draft that it saw in another batch."""
    _require_stops(backend, case, _asked_of_all(case, lambda drafts: _asked(backend, case, drafts)))


def forms_of(backend: Backend) -> tuple[Form, ...]:
    """Return how an implementation may accept the drafts that it verifies: token by token, or as one block."""
    is_coupled = backend.limits.judges_draft_after_cut
    return (Form.COUPLED, Form.CAPPED_BLOCK) if is_coupled else (Form.FRESH, Form.BLOCK)


def chosen_lengths(backend: Backend, case: strategies.ScheduleCase) -> Schedule:
    """Return what a module's schedule chooses for every array of drafts."""
    return _asked_of_all(case, lambda drafts: _chosen(backend, case, drafts))


def _asked_of_all(case: strategies.ScheduleCase, choose: Callable[[Drafts], Lengths]) -> Schedule:
    """Return the choices for all drafts; raise AssertionError if they are others the second time, backwards."""
    arrays = all_drafts(case.scenes)
    schedule = {drafts: choose(drafts) for drafts in arrays}
    for drafts in reversed(arrays):
        what = f"verified drafts of drafts {drafts}, asked again"
        require_equal(what, choose(drafts), schedule[drafts])
    return schedule


def _chosen(backend: Backend, case: strategies.ScheduleCase, drafts: Drafts) -> Lengths:
    verify_lens = np.asarray(backend.host(CHOOSE)(**case.arguments(drafts)))
    require(verify_lens.shape == (len(drafts),), "verify_lens.shape", verify_lens.shape, (len(drafts),))
    require(verify_lens.dtype.kind in "iu", "verify_lens.dtype", verify_lens.dtype, "whole numbers")
    for request, (length, count) in enumerate(zip(verify_lens.tolist(), case.num_drafts, strict=True)):
        expected = f"1 to {count + 1}, because the root is verified and request {request} has {count} drafts"
        require(1 <= length <= count + 1, f"verify_lens[{request}] of drafts {drafts}", length, expected)
    return tuple(length - 1 for length in verify_lens.tolist())


def _asked(backend: Backend, case: strategies.ScheduleCase, drafts: Drafts) -> Lengths:
    lengths = []
    for request, draft in enumerate(drafts):
        length = 0
        for position in range(1, len(draft) + 1):
            before = draft[: position - 1]
            tokens = Prefix(request, before)
            answer = backend.host(ASK)(request, position, tokens, case.confidences[request][before])
            require(not tokens.misread, *(tokens.misread or ("", "", "")))
            what = f"{ASK}({request}, {position}, {[*before]}, …)"
            require(isinstance(answer, bool | np.bool_), what, answer, "True or False")
            if not answer:
                break
            length = position
        lengths.append(length)
    return tuple(lengths)


def _require_stops(backend: Backend, case: strategies.ScheduleCase, schedule: Schedule) -> None:
    look_ahead = int(backend.limits.judges_draft_after_cut)
    found = first_unpredictable(schedule, case.vocab_size, look_ahead)
    if found is None:
        return
    # NOTE: what is read may never be judged for whatever drafts; then no law changes, and the schedule is right.
    for scenes in (case.scenes, with_generic_targets(case.scenes)):
        laws = {form: joint_law(scenes, schedule, form) for form in forms_of(backend)}
        if any(law.distance for law in laws.values()):
            alike = {law: " or ".join(form for form in laws if laws[form] == law) for law in laws.values()}
            bias = "; ".join(f"accepted {forms}, the joint law is off by {law}" for law, forms in alike.items())
            raise AssertionError(f"{found}: {bias}")


def with_generic_targets(scenes: Sequence[ChainScene]) -> list[ChainScene]:
    """Return the same requests with other rows of the target, which agree with no proposal by chance."""
    made = []
    for scene in scenes:
        target = {}
        for place, front in enumerate(scene.target):
            counts = [1 + (17 * place + 29 * token) % 30 for token in range(scene.vocab_size - 1)]
            target[front] = tuple(Fraction(count, PARTS) for count in (*counts, PARTS - sum(counts)))
        made.append(replace(scene, target=target))
    return made


class Prefix(Sequence[int]):
    """The drafts before one, which remembers that another one was asked for.

    Parameters
    ----------
    request : int
        The request that they are of.
    tokens : tuple of int
        The drafts that may be read.
    """

    def __init__(self, request: int, tokens: Outcome) -> None:
        self._request, self._tokens = request, tokens
        self.misread: tuple[str, str, str] | None = None

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def __getitem__(self, place: Any) -> Any:
        last = place.stop - 1 if isinstance(place, slice) and place.stop is not None else place
        if not isinstance(last, slice) and last >= len(self._tokens):
            what = f"draft {last + 1} of request {self._request}, read when draft {len(self._tokens) + 1} is decided"
            self.misread = (what, "read", "unread, because a decision about a draft may read those before it")
            require(False, *self.misread)
        return self._tokens[place]


# NOTE: the quick ones first, as a fault meets them in this order.
PROPERTIES = states(
    "schedules",
    (survivals_of_another_owner_change_nothing, strategies.owner_cases, CHOOSE),
    (a_given_budget_bounds_the_drafts, strategies.forced_cases, CHOOSE),
    (for_each(lengths_stop_before_what_they_read), strategies.several_cases, CHOOSE),
    (for_each(lengths_lie_within_the_drafts), strategies.several_cases, CHOOSE),
    (batches_keep_the_joint_law, strategies.several_cases, CHOOSE),
    (bad_confidences_are_refused, strategies.bad_confidences, CHOOSE),
    (for_each(callbacks_read_drafts_before_alone), strategies.several_cases, ASK),
    (bad_confidences_are_refused_draft_by_draft, strategies.bad_confidences, ASK),
)
