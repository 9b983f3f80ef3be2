"""Faults in where a request ends and in what is kept of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.host.stopping import FinishReason, StopRules
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, answering, mutants_of_operations, with_arguments

_BY_TOKEN = (FinishReason.EOS, FinishReason.STOP_TOKEN)
_BY_LIMIT = (FinishReason.LENGTH, FinishReason.CONTEXT)
_STOPS = (FinishReason.STOP_STRING, *_BY_TOKEN)
_NEVER: dict[FinishReason, Named] = {
    FinishReason.LENGTH: {"max_new_tokens": 1 << 30},
    FinishReason.EOS: {"eos_tokens": frozenset()},
    FinishReason.STOP_TOKEN: {"stop_tokens": frozenset()},
    FinishReason.STOP_STRING: {"stop_strings": ()},
    FinishReason.CONTEXT: {"context_limit": None},
}
"""Rules under which a reason ends no request."""

_CONDITION = "_condition(rules, num_tokens, prompt_length, token, window, before)"
_FINISH = "Finish(reason, num_tokens, text[: len(text) - num_cut], matched)"
_EMITTED = "emitted = appended if finish is None else appended[: finish.num_tokens]"
_CUT = "truncated[request, :kept] = path[:kept]"


def _in_order(*groups: tuple[FinishReason, ...]) -> Callable[[Function], Function]:
    """Inject a fault that tests the whole run for one group of conditions before it tests it for the next."""

    def ask(correct: Function, arguments: Named) -> Any:
        for group in groups:
            finish = correct(**{**arguments, "rules": _only(group, arguments["rules"])})
            if finish is not None:
                return finish
        return None

    return answering(ask)


def _only(reasons: tuple[FinishReason, ...], rules: StopRules) -> StopRules:
    """Return rules that leave only the conditions of some reasons."""
    for reason, never in _NEVER.items():
        rules = rules if reason in reasons else replace(rules, **never)
    return rules


def _limit_counts_verifies(correct: Function, arguments: Named) -> Any:
    rules, runs = arguments["rules"], arguments["runs"][: arguments["rules"].max_new_tokens]
    return correct(**{**arguments, "runs": runs, "rules": replace(rules, max_new_tokens=1 << 30)})


_FIND = "find_stop"
_APPEND = "append_run"
_PLAY = "play_runs"
_CLIP = "clip_drafts"
_TRUNCATE = "truncate_at_stop"
_ADVANCE = "advance_grammar"

MUTANTS = mutants_of_operations(
    {
        ("R01", _FIND, "The limits are tested on the whole run before any stop is."): _in_order(_BY_LIMIT, _STOPS),
        ("R02", _FIND, "Strings are searched in the last stop_len + 1 tokens of a run."): edited(
            _CONDITION,
            """
                _condition(
                    rules,
                    num_tokens,
                    prompt_length,
                    token,
                    window if len(accepted_tokens) - place <= max(map(len, rules.stop_strings), default=0) + 1 else "",
                    before,
                )
                """,
        ),
        ("R03", _FIND, "Text is cut at the string, tokens are not."): edited(
            f"return {_FINISH}",
            f"""
                num_tokens = len(output) + len(accepted_tokens) if num_cut else num_tokens
                return {_FINISH}
                """,
        ),
        ("R09", _FIND, "The minimum suppresses one token too many."): edited(
            "rules.min_new_tokens", "min(rules.min_new_tokens + 1, rules.max_new_tokens)", within="_condition"
        ),
        ("R21", _FIND, "Stop tokens are tested on the whole run before strings are."): _in_order(
            _BY_TOKEN, (FinishReason.STOP_STRING, *_BY_LIMIT)
        ),
        ("OWN-160", _FIND, "Strings that begin before the run are missed."): edited(
            "_text_before(rules, output, text_of)", "''"
        ),
        ("OWN-161", _FIND, "Only the last token of a run is tested for stops."): edited(
            f"reason, matched, num_cut = {_CONDITION}",
            """
                is_last = place == len(accepted_tokens) - 1
                tested = (token, window) if is_last else (-1, "")
                reason, matched, num_cut = _condition(rules, num_tokens, prompt_length, *tested, before)
                """,
        ),
        ("OWN-162", _FIND, "The stop string stays in the text."): edited("text[: len(text) - num_cut]", "text"),
        ("OWN-163", _FIND, "The minimum does not suppress strings."): edited(
            "num_tokens >= rules.min_new_tokens",
            "True",
            "token in rules.eos_tokens",
            "num_tokens >= rules.min_new_tokens and token in rules.eos_tokens",
            "token in rules.stop_tokens",
            "num_tokens >= rules.min_new_tokens and token in rules.stop_tokens",
            within="_condition",
        ),
        ("OWN-164", _FIND, "The context limit does not end a request."): edited(
            "rules.context_limit is not None", "False", within="_condition"
        ),
        ("R20", _APPEND, "A drafted EOS finishes although it was rejected."): edited(
            _EMITTED,
            f"""
                if finish is None and rules.eos_tokens & set(row_tokens[num_accepted_tokens:]):
                    finish = Finish(FinishReason.EOS, len(appended), "".join(map(text_of, appended)))
                {_EMITTED}
                """,
        ),
        ("OWN-165", _APPEND, "Tokens after the stop are emitted."): edited(_EMITTED, "emitted = appended"),
        ("OWN-166", _APPEND, "Tokens after the stop are not committed."): edited(
            "num_committed + num_accepted_tokens", "num_committed + len(emitted) - len(output)"
        ),
        ("R18", _PLAY, "The limit counts verifies, not tokens."): answering(_limit_counts_verifies),
        ("R19", _CLIP, "Drafts are not clipped by the context limit."): edited("rules.context_limit is None", "True"),
        ("OWN-167", _CLIP, "The bonus token's place is given to a draft."): with_arguments(
            num_tokens=lambda count: count - 1
        ),
        ("OWN-168", _CLIP, "The last position of the context stays empty."): with_arguments(
            num_tokens=lambda count: count + 1
        ),
        ("OWN-169", _TRUNCATE, "A request counts the truncated row."): edited(
            "count_drafts(len(path))", "count_drafts(kept)"
        ),
        ("OWN-170", _TRUNCATE, "The batch counts the row before it was cut."): edited(
            "[count_drafts(len(tokens)) for tokens in appended]", "original"
        ),
        ("OWN-171", _TRUNCATE, "The node of the stop itself is cut off."): edited(
            _CUT, "truncated[request, : kept - (finish is not None)] = path[: kept - (finish is not None)]"
        ),
        ("OWN-127", _TRUNCATE, "Matchers do not follow the run."): with_arguments(grammars=None),
        ("OWN-172", _TRUNCATE, "Rows go on after the stop."): edited(_CUT, "truncated[request] = row"),
        ("R16", _ADVANCE, "The matcher sees the last token of a run alone."): with_arguments(
            tokens=lambda own: own[-1:]
        ),
        ("OWN-126", _ADVANCE, "The matcher goes on after its end."): edited(
            "return place + 1",
            """
                for after in tokens[place + 1 :]:
                    grammar.accept(after)
                return place + 1
                """,
        ),
    }
)
