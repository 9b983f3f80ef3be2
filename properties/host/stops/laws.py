"""Laws of stops: accepted runs end a request where its tokens would end it one by one, and nothing else does."""

from collections.abc import Sequence

from specsim.conformance.backend import Backend
from specsim.host.grammar import TableGrammar
from specsim.host.stopping import Finish, FinishReason, StopRules
from specsim.host.truncation import Truncation
from specsim.properties.host.stops.strategy import (
    StopBatch,
    StopCase,
    clip_cases,
    grammar_batches,
    run_requests,
    stop_batches,
    stop_requests,
    text_of,
)
from specsim.properties.laws.checks import require, require_equal, state

Ending = tuple[FinishReason, int, str, int | str | None]


def ending_of(rules: StopRules, tokens: Sequence[int], prompt_length: int) -> Ending | None:
    """Return where tokens that come one by one end a request, by trying every length of the output in turn."""
    for num_tokens in range(1, len(tokens) + 1):
        text = "".join(map(text_of, tokens[:num_tokens]))
        num_old = len("".join(map(text_of, tokens[: num_tokens - 1])))
        last = tokens[num_tokens - 1]
        for start in range(len(text)) if num_tokens >= rules.min_new_tokens else ():
            for stop in rules.stop_strings:
                if text.startswith(stop, start) and start + len(stop) > num_old:
                    return FinishReason.STOP_STRING, num_tokens, text[:start], stop
        if num_tokens >= rules.min_new_tokens and last in rules.eos_tokens:
            return FinishReason.EOS, num_tokens, text, last
        if num_tokens >= rules.min_new_tokens and last in rules.stop_tokens:
            return FinishReason.STOP_TOKEN, num_tokens, text, last
        if num_tokens == rules.max_new_tokens:
            return FinishReason.LENGTH, num_tokens, text, None
        if prompt_length + num_tokens == rules.context_limit:
            return FinishReason.CONTEXT, num_tokens, text, None
    return None


def a_run_ends_where_its_tokens_do(backend: Backend, cases: list[StopCase]) -> None:
    """Reason, length, text and match of a run are those of its tokens, one by one."""
    for case in cases:
        got = backend.host("find_stop")(case.rules, case.output, case.accepted, case.prompt_length, text_of)
        _require_ending(got, ending_of(case.rules, case.tokens, case.prompt_length))


def cutting_into_runs_changes_nothing(
    backend: Backend, cases: list[tuple[StopCase, tuple[tuple[int, ...], ...]]]
) -> None:
    """However verifies cut the tokens into runs, the output and its end are the same."""
    for case, runs in cases:
        output, finish = backend.host("play_runs")(case.rules, runs, case.prompt_length, text_of)
        expected = ending_of(case.rules, case.tokens, case.prompt_length)
        _require_ending(finish, expected)
        require_equal("output", output, case.tokens if expected is None else case.tokens[: expected[1]])


def a_later_cut_emits_the_same(backend: Backend, cases: list[StopCase]) -> None:
    """V2 appends all accepted tokens and no rejected one, emits up to the end, and commits what lies after it too."""
    append_run = backend.host("append_run")
    for case in cases:
        before = case.prompt_length + len(case.output) - 1
        row, count = case.row_tokens, case.num_accepted_tokens
        got = append_run(case.rules, case.output, row, count, before, case.prompt_length, text_of)
        expected = ending_of(case.rules, case.tokens, case.prompt_length)
        _require_ending(got.finish, expected)
        require_equal("appended", got.appended, case.tokens)
        require_equal("emitted", got.emitted, case.tokens if expected is None else case.tokens[: expected[1]])
        require_equal("num_committed", got.num_committed, before + count)


def truncation_ends_rows_at_the_stop(backend: Backend, batch: StopBatch) -> None:
    """V1's rows keep their tokens up to the end and no other; the batch counts what is left, a request what it was."""
    cases, got = batch.cases, _truncated(backend, batch)
    for request, case in enumerate(cases):
        expected = ending_of(case.rules, case.tokens, case.prompt_length)
        num_kept = case.num_accepted_tokens if expected is None else expected[1] - len(case.output)
        _require_ending(got.finishes[request], expected)
        require_equal(f"appended[{request}]", got.appended[request], case.accepted[:num_kept])
        row = batch.accept_index[request].copy()
        row[num_kept:] = -1
        require_equal(f"accept_index[{request}]", got.accept_index[request], row)
        require(row[0] >= 0, f"accept_index[{request}, 0]", int(row[0]), "the root, which is never cut off")
    left = [int((row >= 0).sum()) - 1 for row in got.accept_index]
    require_equal("batch_num_accepted_drafts", got.batch_num_accepted_drafts, left)
    original = [case.num_accepted_tokens - 1 for case in cases]
    require_equal("request_num_accepted_drafts", got.request_num_accepted_drafts, original)


def grammars_follow_the_run_and_end_it(backend: Backend, case: tuple[StopBatch, TableGrammar, list[int]]) -> None:
    """A matcher sees each token that does not end the request; the token that completes its text ends the request."""
    batch, table, states = case
    matchers = [TableGrammar(table.transitions, table.terminated, state) for state in states]
    got = _truncated(backend, batch, matchers)
    for request, stop in enumerate(batch.cases):
        ending = ending_of(stop.rules, stop.tokens, stop.prompt_length)
        state_now = states[request]
        for place, token in enumerate(stop.accepted):
            num_tokens = len(stop.output) + place + 1
            if ending is not None and ending[1] == num_tokens:
                break
            state_now = int(table.transitions[state_now, token])
            if table.terminated[state_now]:
                text = "".join(map(text_of, stop.tokens[:num_tokens]))
                ending = (FinishReason.GRAMMAR, num_tokens, text, None)
                break
        _require_ending(got.finishes[request], ending)
        require_equal(f"state of matcher {request}", matchers[request].state, state_now)


def committed_tokens_advance_a_matcher(backend: Backend, case: tuple[StopBatch, TableGrammar, list[int]]) -> None:
    """A matcher stands where its automaton stands after the committed tokens, up to the one that completes the text."""
    batch, table, states = case
    for stop, first in zip(batch.cases, states, strict=True):
        matcher = TableGrammar(table.transitions, table.terminated, first)
        got = backend.host("advance_grammar")(matcher, stop.accepted)
        visited = [first]
        for token in stop.accepted:
            visited.append(int(table.transitions[visited[-1], token]))
        complete = [place for place, state_then in enumerate(visited) if place and table.terminated[state_then]]
        expected = complete[0] if complete else None
        require(got == expected, "tokens that complete the text", got, expected)
        require_equal("state", matcher.state, visited[len(visited) - 1 if expected is None else expected])


def drafts_fill_the_context_and_no_more(backend: Backend, case: tuple[StopRules, int, int]) -> None:
    """Drafts accepted whole end exactly at the context limit, no verify writes a position at it, none is lost early."""
    rules, num_tokens, num_drafts = case
    got = backend.host("clip_drafts")(rules, num_tokens, num_drafts)
    limit = num_tokens + num_drafts + 1 if rules.context_limit is None else rules.context_limit
    require(0 <= got <= num_drafts, "drafts", got, f"0 to {num_drafts}")
    last_position = num_tokens - 1 + got
    require(last_position < limit, "last position written", last_position, f"below {limit}")
    total = num_tokens + got + 1
    require(total <= limit, "tokens after full acceptance", total, f"at most {limit}")
    require(got == num_drafts or total == limit, "tokens after full acceptance", total, limit)


def _truncated(backend: Backend, batch: StopBatch, *matchers: list[TableGrammar]) -> Truncation:
    """Return what V1 leaves of a batch, whose requests have no matcher if none are given."""
    cases, truncate = batch.cases, backend.host("truncate_at_stop")
    rules, outputs = [case.rules for case in cases], [case.output for case in cases]
    lengths = [case.prompt_length for case in cases]
    truncated: Truncation = truncate(batch.accept_index, batch.predict, rules, outputs, lengths, text_of, *matchers)
    return truncated


def _require_ending(got: Finish | None, expected: Ending | None) -> None:
    seen = None if got is None else (got.reason, got.num_tokens, got.text, got.matched)
    require(seen == expected, "finish", seen, expected)


PROPERTIES = (
    state("stops", a_run_ends_where_its_tokens_do, stop_requests, ("find_stop",), "P52"),
    state("stops", cutting_into_runs_changes_nothing, run_requests, ("play_runs",), "P52"),
    state("stops", a_later_cut_emits_the_same, stop_requests, ("append_run",), "P52"),
    state("stops", truncation_ends_rows_at_the_stop, stop_batches, ("truncate_at_stop",), "P52"),
    state("stops", grammars_follow_the_run_and_end_it, grammar_batches, ("truncate_at_stop",), "P53"),
    # NOTE: the simplest example is a batch without requests, which calls nothing.
    state("stops", committed_tokens_advance_a_matcher, grammar_batches, ("advance_grammar",), "P53", least_examples=2),
    state("stops", drafts_fill_the_context_and_no_more, clip_cases, ("clip_drafts",), "P54"),
)
