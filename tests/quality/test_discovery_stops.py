"""The strategies find every stop at every offset of a run, alone and in pairs, and histories that hide little."""

from collections.abc import Callable

import pytest

from specsim.host.stopping import FinishReason, StopRules
from specsim.properties.host.metrics.strategy import histories, request_logs
from specsim.properties.host.stops.laws import Ending, ending_of
from specsim.properties.host.stops.strategy import (
    KINDS,
    MAX_RUN,
    StopCase,
    run_cases,
    stop_batches,
    stop_cases,
    text_of,
)
from tests.quality.pool import Pool

FAR = 1 << 20
MOST_CASES = 20_000
"""Some stops are one case in a thousand, and what a search draws depends on the modules that happen to be loaded."""
PAIRS = [(one, other) for one in KINDS for other in KINDS if one is not other]


def alone(case: StopCase, reason: FinishReason) -> Ending | None:
    """Return where the request would end by one condition, were the others not there."""
    rules = case.rules
    only = StopRules(
        max_new_tokens=rules.max_new_tokens if reason is FinishReason.LENGTH else FAR,
        eos_tokens=rules.eos_tokens if reason is FinishReason.EOS else frozenset(),
        stop_tokens=rules.stop_tokens if reason is FinishReason.STOP_TOKEN else frozenset(),
        stop_strings=rules.stop_strings if reason is FinishReason.STOP_STRING else (),
        min_new_tokens=rules.min_new_tokens,
        context_limit=rules.context_limit if reason is FinishReason.CONTEXT else None,
    )
    return ending_of(only, case.tokens, case.prompt_length)


def offset_alone(case: StopCase, reason: FinishReason) -> int | None:
    """Return at which offset of the run it would end by one condition."""
    ending = alone(case, reason)
    return None if ending is None else ending[1] - len(case.output) - 1


def offset_of(case: StopCase) -> tuple[FinishReason, int] | None:
    """Return why and at which offset of the run the request ends."""
    ending = ending_of(case.rules, case.tokens, case.prompt_length)
    return None if ending is None else (ending[0], ending[1] - len(case.output) - 1)


@pytest.fixture(scope="module")
def cases() -> Pool[StopCase]:
    """Return what every search for a single run looks through."""
    return Pool(stop_cases(), MOST_CASES, in_rounds_of=10)


@pytest.mark.parametrize("offset", range(MAX_RUN))
@pytest.mark.parametrize("reason", KINDS)
def test_each_stop_is_found_at_each_offset(cases, reason, offset):
    assert cases.first(lambda case: offset_of(case) == (reason, offset))


@pytest.mark.parametrize("reason", KINDS)
def test_each_stop_is_found_at_the_bonus_token_and_at_the_first(cases, reason):
    def at(place: Callable[[StopCase], int], case: StopCase) -> bool:
        return case.num_accepted_tokens > 2 and offset_of(case) == (reason, place(case))

    assert cases.first(lambda case: at(lambda case: case.num_accepted_tokens - 1, case))
    assert cases.first(lambda case: at(lambda case: 0, case) and not case.output)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_each_pair_is_found_in_one_run_in_this_order(cases, first, second):
    def in_order(case: StopCase) -> bool:
        one, other = offset_alone(case, first), offset_alone(case, second)
        return one is not None and other is not None and one < other

    assert cases.first(in_order)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_each_pair_is_found_at_one_token(cases, first, second):
    assert cases.first(lambda case: None is not offset_alone(case, first) == offset_alone(case, second))


STRINGS: dict[str, Callable[[StopCase, str, int], bool]] = {
    "one token": lambda case, stop, last: text_of(case.tokens[last]) == stop,
    "two tokens": lambda case, stop, last: len(stop) > 1 and 0 < len(text_of(case.tokens[last])) < len(stop),
    "the end of a longer token": lambda case, stop, last: len(text_of(case.tokens[last])) > len(stop),
    "a token without text": lambda case, stop, last: last > 0 and len(stop) > 1 and not text_of(case.tokens[last - 1]),
    "two runs": lambda case, stop, last: (
        len(case.output) > 0 and last == len(case.output) and len(text_of(case.tokens[last])) < len(stop)
    ),
    "the front of a run longer than the string and one": lambda case, stop, last: (
        case.num_accepted_tokens - (last - len(case.output)) > len(stop) + 1
    ),
}


@pytest.mark.parametrize("what", STRINGS)
def test_strings_are_found_in(cases, what):
    def spelt_so(case: StopCase) -> bool:
        ending = ending_of(case.rules, case.tokens, case.prompt_length)
        if ending is None or ending[0] is not FinishReason.STOP_STRING:
            return False
        return STRINGS[what](case, str(ending[3]), ending[1] - 1)

    assert cases.first(spelt_so)


MINIMUM: dict[str, Callable[[StopCase, int], bool]] = {
    "at the stop": lambda case, length: case.rules.min_new_tokens == length,
    "one before it": lambda case, length: case.rules.min_new_tokens == length - 1,
}


@pytest.mark.parametrize("what", MINIMUM)
@pytest.mark.parametrize("reason", [FinishReason.EOS, FinishReason.STOP_TOKEN, FinishReason.STOP_STRING])
def test_a_minimum_is_found(cases, reason, what):
    def bounded(case: StopCase) -> bool:
        ending = ending_of(case.rules, case.tokens, case.prompt_length)
        return ending is not None and ending[0] is reason and ending[1] > 1 and MINIMUM[what](case, ending[1])

    assert cases.first(bounded)


@pytest.mark.parametrize("reason", [FinishReason.EOS, FinishReason.STOP_TOKEN, FinishReason.STOP_STRING])
def test_a_stop_that_the_minimum_just_suppresses_is_found(cases, reason):
    def suppressed(case: StopCase) -> bool:
        rules = case.rules
        if rules.min_new_tokens < 2:
            return False
        without = StopRules(FAR, rules.eos_tokens, rules.stop_tokens, rules.stop_strings, rules.min_new_tokens - 1)
        ending = ending_of(without, case.tokens, case.prompt_length)
        return ending is not None and ending[0] is reason and ending[1] == rules.min_new_tokens - 1

    assert cases.first(suppressed)


def test_a_rejected_eos_is_found_in_a_request_that_goes_on(cases):
    assert cases.first(
        lambda case: (
            offset_of(case) is None and case.rules.eos_tokens & set(case.row_tokens[case.num_accepted_tokens :])
        )
    )


def test_a_stop_across_verifies_is_found():
    def ends_in_a_later_run(one: tuple) -> bool:
        case, runs = one
        ending = ending_of(case.rules, case.tokens, case.prompt_length)
        return len(runs) > 2 and ending is not None and ending[1] > len(runs[0]) + len(runs[1])

    assert Pool(run_cases(), 200).first(ends_in_a_later_run)


def test_a_batch_with_and_without_stops_is_found():
    def mixed(batch: object) -> bool:
        ends = [offset_of(case) is None for case in batch.cases]
        return len(ends) > 2 and any(ends) and not all(ends)

    assert Pool(stop_batches(), 50, in_rounds_of=10).first(mixed)


HISTORIES: dict[str, Callable] = {
    "a zombie": lambda history: any(
        row.is_zombie and row.num_accepted_drafts for batch in history.batches for row in batch
    ),
    "an idle batch between others": lambda history: any(
        before and not batch and after
        for before, batch, after in zip(history.batches, history.batches[1:], history.batches[2:], strict=False)
    ),
    "an interval without a verify": lambda history: (
        history.decode_log_interval == 1 and () in history.batches and any(history.batches)
    ),
    "a tree with spare nodes": lambda history: history.num_draft_tokens > history.num_steps + 1,
    "a last interval that is not full": lambda history: len(history.batches) % history.decode_log_interval > 0,
}


def test_histories_are_found():
    left = dict(HISTORIES)
    for history in Pool(histories(), 500):
        left = {what: predicate for what, predicate in left.items() if not predicate(history)}
        if not left:
            return
    raise AssertionError(f"no history with {[*left]}")


def test_a_request_that_stops_inside_its_last_run_is_found():
    assert Pool(request_logs(), 100, in_rounds_of=10).first(
        lambda log: (
            log.num_drafts_per_round > 0
            and log.num_completion_tokens < 1 + sum(log.num_accepted_drafts) + len(log.num_accepted_drafts)
        )
    )
