"""Stops by hand: which token ends a request, what is kept, and what the window of strings must reach."""

import pytest

from specsim.host.stopping import (
    AppendedRun,
    Finish,
    FinishReason,
    StopRules,
    append_run,
    clip_drafts,
    find_stop,
    play_runs,
)
from specsim.rejection import Reason, SpecRejection

A, B, C, D = map(ord, "abcd")


def ended(rules, output, run, prompt_length=1):
    return find_stop(rules, [*map(ord, output)], [*map(ord, run)], prompt_length, chr)


@pytest.mark.parametrize(
    ("rules", "output", "run", "expected"),
    [
        (StopRules(9), "", "abc", None),
        (StopRules(9, frozenset({B})), "", "abc", Finish(FinishReason.EOS, 2, "ab", B)),
        (StopRules(9, stop_tokens=frozenset({C})), "x", "abc", Finish(FinishReason.STOP_TOKEN, 4, "xabc", C)),
        (StopRules(2), "", "abc", Finish(FinishReason.LENGTH, 2, "ab")),
        (StopRules(9, context_limit=4), "x", "abc", Finish(FinishReason.CONTEXT, 3, "xab")),
        (StopRules(9, stop_strings=("bc",)), "", "abcd", Finish(FinishReason.STOP_STRING, 3, "a", "bc")),
    ],
    ids=["goes on", "eos", "stop token", "length", "context", "string"],
)
def test_each_kind(rules, output, run, expected):
    assert ended(rules, output, run) == expected


def test_a_stop_beats_the_limit_that_the_run_crosses_later():
    assert ended(StopRules(3, frozenset({B})), "", "abcd") == Finish(FinishReason.EOS, 2, "ab", B)


def test_a_limit_beats_the_stop_that_the_run_holds_later():
    assert ended(StopRules(1, frozenset({B})), "", "abcd") == Finish(FinishReason.LENGTH, 1, "a")


def test_at_one_token_a_stop_is_the_reason_and_not_the_limit():
    assert ended(StopRules(2, frozenset({B})), "", "ab").reason is FinishReason.EOS


def test_at_one_token_the_string_is_cut_off_though_it_ends_with_eos():
    rules = StopRules(9, frozenset({C}), stop_strings=("bc",))
    assert ended(rules, "", "abc") == Finish(FinishReason.STOP_STRING, 3, "a", "bc")


def test_a_string_at_the_front_of_a_long_run_is_seen():
    assert ended(StopRules(99, stop_strings=("b",)), "", "ab" + "c" * 50) == Finish(
        FinishReason.STOP_STRING, 2, "a", "b"
    )


def test_a_string_may_begin_in_the_output_before_the_run():
    got = ended(StopRules(9, stop_strings=("abc",)), "xab", "cd")
    assert got == Finish(FinishReason.STOP_STRING, 4, "x", "abc")


def test_tokens_without_text_do_not_shorten_the_window():
    texts = ["a", "", "b"]
    rules = StopRules(9, stop_strings=("ab",))
    got = find_stop(rules, [0, 1, 1, 1], [2], 1, texts.__getitem__)
    assert got == Finish(FinishReason.STOP_STRING, 5, "", "ab")


def test_a_token_that_completes_two_strings_cuts_at_the_first_of_them():
    texts = ["xab"]
    rules = StopRules(9, stop_strings=("b", "ab"))
    assert find_stop(rules, [], [0], 1, texts.__getitem__) == Finish(FinishReason.STOP_STRING, 1, "x", "ab")


@pytest.mark.parametrize(("least", "length"), [(0, 2), (2, 2), (3, 4), (4, 4)])
def test_the_minimum_suppresses_stops_while_the_output_is_shorter(least, length):
    rules = StopRules(9, frozenset({B}), min_new_tokens=least)
    assert ended(rules, "", "abab").num_tokens == length


def test_a_string_that_the_minimum_suppressed_does_not_end_the_output_later():
    rules = StopRules(9, stop_strings=("b",), min_new_tokens=3)
    assert ended(rules, "", "abcd") is None
    assert ended(rules, "", "abcb") == Finish(FinishReason.STOP_STRING, 4, "abc", "b")


def test_a_limit_is_not_suppressed():
    assert ended(StopRules(3, min_new_tokens=3, context_limit=2), "", "abc").reason is FinishReason.CONTEXT


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max_new_tokens": 0}, Reason.COUNT_OUT_OF_RANGE),
        ({"max_new_tokens": 3, "min_new_tokens": -1}, Reason.COUNT_OUT_OF_RANGE),
        ({"max_new_tokens": 3, "min_new_tokens": 4}, Reason.BAD_CONFIGURATION),
        ({"max_new_tokens": 3, "stop_strings": ("a", "")}, Reason.BAD_CONFIGURATION),
    ],
)
def test_rules_that_contradict_themselves_are_refused(fields, reason):
    with pytest.raises(SpecRejection) as caught:
        StopRules(**fields)
    assert caught.value.reason is reason


def test_a_later_cut_commits_what_lies_after_the_stop():
    got = append_run(StopRules(9, frozenset({B})), [C], [A, B, C, D, B], 4, 7, 1, chr)
    assert got == AppendedRun((C, A, B, C, D), (C, A, B), Finish(FinishReason.EOS, 3, "cab", B), 11)


def test_a_rejected_eos_does_not_end_a_request():
    assert append_run(StopRules(9, frozenset({B})), [], [A, C, B], 2, 7, 1, chr).finish is None


@pytest.mark.parametrize("count", [0, 4])
def test_a_count_outside_the_row_is_refused(count):
    with pytest.raises(SpecRejection) as caught:
        append_run(StopRules(9), [], [A, B, C], count, 7, 1, chr)
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_runs_after_the_end_are_not_output():
    assert play_runs(StopRules(4), [[A, B, C], [A, B, C], [A]], 1, chr) == (
        (A, B, C, A),
        Finish(FinishReason.LENGTH, 4, "abca"),
    )


@pytest.mark.parametrize(("num_tokens", "expected"), [(3, 4), (5, 4), (6, 3), (8, 1), (9, 0)])
def test_drafts_are_clipped_by_the_context(num_tokens, expected):
    assert clip_drafts(StopRules(9, context_limit=10), num_tokens, 4) == expected
    assert clip_drafts(StopRules(9), num_tokens, 4) == 4
