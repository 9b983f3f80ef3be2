"""What an output has to be: plain decoding of the same prompt under the same rules, and as much of it as was let be."""

from dataclasses import dataclass

from specsim.assertion import require
from specsim.host.acceptance import Acceptance
from specsim.host.stopping import Finish, FinishReason, StopRules, find_stop
from specsim.host.truncation import end_of_grammar
from specsim.properties.runs.play import decoded_alone
from specsim.properties.runs.reports.reported import check_reported
from specsim.properties.soak.alone import run_together
from specsim.properties.soak.setups import Setup
from specsim.simulation.requests import TOKEN_TEXT, Request

DECODED_TOGETHER = 8
"""Sampled requests that are decoded again in one batch."""


@dataclass(frozen=True)
class Watch:
    """A request of a machine, and what was done to it.

    ``was_aborted`` says that somebody asked it to end.
    """

    request: Request
    was_aborted: bool = False


class SampledOutputs:
    """Sampled outputs that wait until several can be decoded again together: an engine for each takes longer.

    ``is_repeatable`` says whether the reference drafts the same, so that the same coins lead to the same output.
    """

    def __init__(self, is_repeatable: bool = True) -> None:
        self.is_repeatable = is_repeatable
        self._waiting: list[Request] = []

    def add(self, setup: Setup, request: Request) -> None:
        """Note a request that has ended on a machine of these sizes, and check those that wait if they are many."""
        self._waiting.append(request)
        if len(self._waiting) == DECODED_TOGETHER:
            self.check(setup)

    def check(self, setup: Setup) -> None:
        """Raise AssertionError unless each that waits output what the reference outputs with the same coins."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            for request, again in zip(waiting, run_together(setup, waiting), strict=True):
                _compare(request, again.output, again.finish)


def check_output(setup: Setup, watch: Watch, sampled: SampledOutputs) -> None:
    """Raise AssertionError unless a request that has ended output what it had to, and ended where it had to.

    An aborted one may have more than its rules let it have, but nothing else. What is ``sampled`` is compared later.
    """
    request = watch.request
    check_reported(setup.model, request)
    is_aborted = request.finish_reason is FinishReason.ABORT
    if is_aborted:
        require(watch.was_aborted, f"finish of request {request.request_id}", "aborted", "decoded to its end")
    if request.is_greedy:
        rules = StopRules(max(len(request.output), 1)) if is_aborted else request.fresh().rules
        _compare(request, *decoded_alone(setup.model, request, rules))
    elif setup.drafting.acceptance is Acceptance.TARGET_DRAW or _repeats(setup, request, sampled):
        sampled.add(setup, request)
    else:
        _check_end(request)


def _repeats(setup: Setup, request: Request, sampled: SampledOutputs) -> bool:
    """Return whether an undisturbed run has the same coins: they depend on where the verifies of an output began."""
    is_disturbed = setup.candidates or setup.drafter.has_memory or setup.schedule.verification is not None
    return sampled.is_repeatable and not (is_disturbed or request.num_retractions or _may_be_cut(setup, request))


def _may_be_cut(setup: Setup, request: Request) -> bool:
    """Return whether who runs beside may decide what is kept: models rank all tokens, rules make some equal."""
    rules = request.logit_rules
    return setup.drafter.cuts_by_company and rules is not None and rules.has_strengths


def _compare(request: Request, output: list[int], finish: Finish | None) -> None:
    what = f"output of request {request.request_id}"
    if request.finish_reason is FinishReason.ABORT:
        common = min(len(output), len(request.output))
        require(request.output[:common] == output[:common], what, request.output, output)
        return
    require(request.output == output, what, request.output, output)
    require(request.finish == finish, f"finish of request {request.request_id}", request.finish, finish)


def _check_end(request: Request) -> None:
    """Raise AssertionError unless a sampled output ends at the first token that ends it."""
    if request.finish_reason is FinishReason.ABORT:
        return
    fresh = request.fresh()
    matcher = None if fresh.grammar is None else fresh.grammar()
    output: list[int] = []
    found: Finish | None = None
    for token in request.output:
        require(found is None, f"end of request {request.request_id}", request.finish, found)
        found = find_stop(fresh.rules, output, [token], len(fresh.prompt), TOKEN_TEXT)
        if matcher is not None:
            found = end_of_grammar(matcher, output, [token], found, TOKEN_TEXT)
        output.append(token)
    require(found == request.finish, f"end of request {request.request_id}", request.finish, found)
