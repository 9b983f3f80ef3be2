"""Faults in where a request ends and in what is kept of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Function, Named, answering, edits_of, mutants_of

_NO_TOKENS: Named = {"eos_tokens": frozenset(), "stop_tokens": frozenset()}
_NO_STOPS: Named = {**_NO_TOKENS, "stop_strings": ()}
_NO_LIMITS: Named = {"max_new_tokens": 1 << 30, "context_limit": None}
_TOKENS_ALONE: Named = {**_NO_LIMITS, "stop_strings": ()}
"""Rules under which conditions of some kinds end no request."""


def _in_order(*left_out: Named) -> Callable[[Function], Function]:
    """Inject a fault that tests the whole run with some conditions left out before it does so with others."""

    def ask(correct: Function, arguments: Named) -> Any:
        for rules in left_out:
            finish = correct(**{**arguments, "rules": replace(arguments["rules"], **rules)})
            if finish is not None:
                return finish
        return None

    return answering(ask)


MUTANTS = (
    *edits_of(
        """
    @@ find_stop
    R02 Strings are searched in the last stop_len + 1 tokens of a run.
    - _condition(rules, num_tokens, prompt_length, token, window, before)
    + _condition(rules, num_tokens, prompt_length, token, window if (
    +     len(accepted_tokens) - place <= max(map(len, rules.stop_strings), default=0) + 1) else "", before)
    R03 Text is cut at the string, tokens are not.
    - return Finish(reason, num_tokens, text[: len(text) - num_cut], matched)
    + num_tokens = len(output) + len(accepted_tokens) if num_cut else num_tokens
    + return Finish(reason, num_tokens, text[: len(text) - num_cut], matched)
    OWN-160 Strings that begin before the run are missed.
    - _text_before(rules, output, text_of) => ''
    OWN-161 Only the last token of a run is tested for stops.
    - reason, matched, num_cut = _condition(rules, num_tokens, prompt_length, token, window, before)
    + is_last = place == len(accepted_tokens) - 1
    + tested = (token, window) if is_last else (-1, "")
    + reason, matched, num_cut = _condition(rules, num_tokens, prompt_length, *tested, before)
    OWN-162 The stop string stays in the text.
    - text[: len(text) - num_cut] => text
    @@ find_stop in _condition
    R09 The minimum suppresses one token too many.
    - rules.min_new_tokens => min(rules.min_new_tokens + 1, rules.max_new_tokens)
    OWN-163 The minimum does not suppress strings.
    - num_tokens >= rules.min_new_tokens => True
    - token in rules.eos_tokens => num_tokens >= rules.min_new_tokens and token in rules.eos_tokens
    - token in rules.stop_tokens => num_tokens >= rules.min_new_tokens and token in rules.stop_tokens
    OWN-164 The context limit does not end a request.
    - rules.context_limit is not None => False
    @@ append_run
    R20 A drafted EOS finishes although it was rejected.
    - emitted = appended if finish is None else appended[: finish.num_tokens]
    + if finish is None and rules.eos_tokens & set(row_tokens[num_accepted_tokens:]):
    +     finish = Finish(FinishReason.EOS, len(appended), "".join(map(text_of, appended)))
    + emitted = appended if finish is None else appended[: finish.num_tokens]
    OWN-165 Tokens after the stop are emitted.
    - emitted = appended if finish is None else appended[: finish.num_tokens] => emitted = appended
    OWN-166 Tokens after the stop are not committed.
    - num_committed + num_accepted_tokens => num_committed + len(emitted) - len(output)
    @@ play_runs
    R18 The limit counts verifies, not tokens.
    - runs => runs[: rules.max_new_tokens]
    - find_stop(rules, output, accepted, prompt_length, text_of)
    + find_stop(replace(rules, max_new_tokens=1 << 30), output, accepted, prompt_length, text_of)
    @@ clip_drafts
    OWN-167 The bonus token's place is given to a draft.
    - rules.context_limit - num_tokens => rules.context_limit - num_tokens + 1
    OWN-168 The last position of the context stays empty.
    - rules.context_limit - num_tokens => rules.context_limit - num_tokens - 1
    R19 Drafts are not clipped by the context limit.
    - rules.context_limit is None => True
    @@ truncate_at_stop
    OWN-169 A request counts the truncated row.
    - count_drafts(len(path)) => count_drafts(kept)
    OWN-170 The batch counts the row before it was cut.
    - [count_drafts(len(tokens)) for tokens in appended] => original
    OWN-171 The node of the stop itself is cut off.
    - truncated[request, :kept] = path[:kept]
    + truncated[request, : kept - (finish is not None)] = path[: kept - (finish is not None)]
    OWN-172 Rows go on after the stop.
    - truncated[request, :kept] = path[:kept] => truncated[request] = row
    OWN-127 Matchers do not follow the run.
    - grammars is None => True
    @@ advance_grammar
    R16 The matcher sees the last token of a run alone.
    - enumerate(tokens) => enumerate(tokens[-1:])
    OWN-126 The matcher goes on after its end.
    - return place + 1
    + for after in tokens[place + 1 :]:
    +     grammar.accept(after)
    + return place + 1
    """,
        replace=replace,
    ),
    *mutants_of(
        "find_stop",
        ("R01", "The limits are tested on the whole run before any stop is.", _in_order(_NO_STOPS, _NO_LIMITS)),
        ("R21", "Stop tokens are tested on the whole run before strings are.", _in_order(_TOKENS_ALONE, _NO_TOKENS)),
    ),
)
