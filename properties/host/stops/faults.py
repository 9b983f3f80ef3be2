"""Faults in where a request ends and in what is kept of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.host.stopping import AppendedRun, Finish, FinishReason, StopRules
from specsim.properties.mutants.record import Function, Mutant, Named, answering, with_arguments

_BY_TOKEN = (FinishReason.EOS, FinishReason.STOP_TOKEN)
_BY_LIMIT = (FinishReason.LENGTH, FinishReason.CONTEXT)


def _with_rules(change: Callable[[StopRules], StopRules]) -> Callable[[Function], Function]:
    """Inject a fault in the rules that the correct function sees."""
    return answering(lambda correct, arguments: correct(**{**arguments, "rules": change(arguments["rules"])}))


def _without_strings(rules: StopRules) -> StopRules:
    return replace(rules, stop_strings=())


def _only(reasons: tuple[FinishReason, ...]) -> Callable[[StopRules], StopRules]:
    """Return a change of rules that leaves only the conditions of some reasons."""

    def change(rules: StopRules) -> StopRules:
        return StopRules(
            max_new_tokens=rules.max_new_tokens if FinishReason.LENGTH in reasons else 1 << 30,
            eos_tokens=rules.eos_tokens if FinishReason.EOS in reasons else frozenset(),
            stop_tokens=rules.stop_tokens if FinishReason.STOP_TOKEN in reasons else frozenset(),
            stop_strings=rules.stop_strings if FinishReason.STOP_STRING in reasons else (),
            min_new_tokens=rules.min_new_tokens,
            context_limit=rules.context_limit if FinishReason.CONTEXT in reasons else None,
        )

    return change


def _in_order(*groups: tuple[FinishReason, ...]) -> Callable[[Function], Function]:
    """Inject a fault that tests the whole run for one group of conditions before it tests it for the next."""

    def ask(correct: Function, arguments: Named) -> Any:
        for group in groups:
            finish = correct(**{**arguments, "rules": _only(group)(arguments["rules"])})
            if finish is not None:
                return finish
        return None

    return answering(ask)


def _short_window(correct: Function, arguments: Named) -> Any:
    rules, accepted = arguments["rules"], list(arguments["accepted_tokens"])
    width = max(map(len, rules.stop_strings), default=len(accepted)) + 1
    front, back = accepted[:-width], accepted[-width:]
    finish = correct(**{**arguments, "rules": _without_strings(rules), "accepted_tokens": front})
    if finish is not None:
        return finish
    return correct(**{**arguments, "output": [*arguments["output"], *front], "accepted_tokens": back})


def _run_is_searched_alone(correct: Function, arguments: Named) -> Any:
    rules, output = arguments["rules"], arguments["output"]
    moved = replace(rules, min_new_tokens=max(0, rules.min_new_tokens - len(output)))
    moved = replace(moved, max_new_tokens=rules.max_new_tokens - len(output))
    limit = rules.context_limit
    moved = replace(moved, context_limit=None if limit is None else limit - len(output))
    finish = correct(**{**arguments, "rules": moved, "output": []})
    return finish and replace(
        finish,
        num_tokens=finish.num_tokens + len(output),
        text="".join(map(arguments["text_of"], output)) + finish.text,
    )


def _only_the_last_token(correct: Function, arguments: Named) -> Any:
    output, accepted = arguments["output"], list(arguments["accepted_tokens"])
    front = correct(**{**arguments, "rules": _only(_BY_LIMIT)(arguments["rules"]), "accepted_tokens": accepted[:-1]})
    if front is not None:
        return front
    return correct(**{**arguments, "output": [*output, *accepted[:-1]], "accepted_tokens": accepted[-1:]})


def _text_alone_is_cut(correct: Function, arguments: Named) -> Any:
    finish = correct(**arguments)
    if finish is None or finish.reason is not FinishReason.STOP_STRING:
        return finish
    return replace(finish, num_tokens=len(arguments["output"]) + len(arguments["accepted_tokens"]))


def _string_stays(correct: Function, arguments: Named) -> Any:
    finish = correct(**arguments)
    if finish is None or finish.reason is not FinishReason.STOP_STRING:
        return finish
    kept = [*arguments["output"], *arguments["accepted_tokens"]][: finish.num_tokens]
    return replace(finish, text="".join(map(arguments["text_of"], kept)))


def _minimum_spares_strings(correct: Function, arguments: Named) -> Any:
    rules = arguments["rules"]
    asked = (correct(**arguments), correct(**{**arguments, "rules": replace(rules, min_new_tokens=0)}))
    finish, early = asked
    return early if early is not None and early.reason is FinishReason.STOP_STRING else finish


def _finished_by_a_draft(correct: Function, arguments: Named) -> Any:
    run: AppendedRun = correct(**arguments)
    rejected = arguments["row_tokens"][arguments["num_accepted_tokens"] :]
    if run.finish is not None or not arguments["rules"].eos_tokens & set(rejected):
        return run
    text = "".join(map(arguments["text_of"], run.appended))
    return replace(run, finish=Finish(FinishReason.EOS, len(run.appended), text))


def _committed_up_to_the_stop(correct: Function, arguments: Named) -> Any:
    run: AppendedRun = correct(**arguments)
    after = len(run.appended) - len(run.emitted)
    return replace(run, num_committed=run.num_committed - after)


def _emitted_whole(correct: Function, arguments: Named) -> Any:
    run: AppendedRun = correct(**arguments)
    return replace(run, emitted=run.appended)


def _limit_counts_verifies(correct: Function, arguments: Named) -> Any:
    rules, runs = arguments["rules"], arguments["runs"][: arguments["rules"].max_new_tokens]
    return correct(**{**arguments, "runs": runs, "rules": replace(rules, max_new_tokens=1 << 30)})


def _not_clipped(correct: Function, arguments: Named) -> Any:
    return arguments["num_drafts"]


def _clipped_by_the_drafts_alone(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "num_tokens": arguments["num_tokens"] - 1})


def _clipped_one_early(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "num_tokens": arguments["num_tokens"] + 1})


def _request_counts_what_is_left(correct: Function, arguments: Named) -> Any:
    truncation = correct(**arguments)
    return replace(truncation, request_num_accepted_drafts=truncation.batch_num_accepted_drafts)


def _batch_counts_what_was(correct: Function, arguments: Named) -> Any:
    truncation = correct(**arguments)
    return replace(truncation, batch_num_accepted_drafts=truncation.request_num_accepted_drafts)


def _row_ends_before_the_stop(correct: Function, arguments: Named) -> Any:
    truncation = correct(**arguments)
    rows = truncation.accept_index.copy()
    for row, finish in zip(rows, truncation.finishes, strict=True):
        if finish is not None:
            row[int((row >= 0).sum()) - 1] = -1
    return replace(truncation, accept_index=rows)


def _nothing_is_cut_of_the_rows(correct: Function, arguments: Named) -> Any:
    return replace(correct(**arguments), accept_index=np.array(arguments["accept_index"]))


def _advanced_by_the_last(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "tokens": arguments["tokens"][-1:]})


def _goes_on_after_the_end(correct: Function, arguments: Named) -> Any:
    complete = correct(**arguments)
    for token in arguments["tokens"][complete:] if complete is not None else ():
        arguments["grammar"].accept(token)
    return complete


_FIND, _APPEND, _PLAY, _CLIP, _CUT = "find_stop", "append_run", "play_runs", "clip_drafts", "truncate_at_stop"
_STOPS = (FinishReason.STOP_STRING, *_BY_TOKEN)

MUTANTS = (
    Mutant("R01", _FIND, "The limits are tested on the whole run before any stop is.", _in_order(_BY_LIMIT, _STOPS)),
    Mutant("R02", _FIND, "Strings are searched in the last stop_len + 1 tokens of a run.", answering(_short_window)),
    Mutant("R03", _FIND, "Text is cut at the string, tokens are not.", answering(_text_alone_is_cut)),
    Mutant(
        "R09",
        _FIND,
        "The minimum suppresses one token too many.",
        _with_rules(lambda rules: replace(rules, min_new_tokens=min(rules.min_new_tokens + 1, rules.max_new_tokens))),
    ),
    Mutant(
        "R21",
        _FIND,
        "Stop tokens are tested on the whole run before strings are.",
        _in_order(_BY_TOKEN, (FinishReason.STOP_STRING, *_BY_LIMIT)),
    ),
    Mutant("R20", _APPEND, "A drafted EOS finishes although it was rejected.", answering(_finished_by_a_draft)),
    Mutant("R18", _PLAY, "The limit counts verifies, not tokens.", answering(_limit_counts_verifies)),
    Mutant("R19", _CLIP, "Drafts are not clipped by the context limit.", answering(_not_clipped)),
    Mutant("OWN-160", _FIND, "Strings that begin before the run are missed.", answering(_run_is_searched_alone)),
    Mutant("OWN-161", _FIND, "Only the last token of a run is tested for stops.", answering(_only_the_last_token)),
    Mutant("OWN-162", _FIND, "The stop string stays in the text.", answering(_string_stays)),
    Mutant("OWN-163", _FIND, "The minimum does not suppress strings.", answering(_minimum_spares_strings)),
    Mutant(
        "OWN-164",
        _FIND,
        "The context limit does not end a request.",
        _with_rules(lambda rules: replace(rules, context_limit=None)),
    ),
    Mutant("OWN-165", _APPEND, "Tokens after the stop are emitted.", answering(_emitted_whole)),
    Mutant("OWN-166", _APPEND, "Tokens after the stop are not committed.", answering(_committed_up_to_the_stop)),
    Mutant("OWN-167", _CLIP, "The bonus token's place is given to a draft.", answering(_clipped_by_the_drafts_alone)),
    Mutant("OWN-168", _CLIP, "The last position of the context stays empty.", answering(_clipped_one_early)),
    Mutant("OWN-169", _CUT, "A request counts the truncated row.", answering(_request_counts_what_is_left)),
    Mutant("OWN-170", _CUT, "The batch counts the row before it was cut.", answering(_batch_counts_what_was)),
    Mutant("OWN-171", _CUT, "The node of the stop itself is cut off.", answering(_row_ends_before_the_stop)),
    Mutant(
        "R16", "advance_grammar", "The matcher sees the last token of a run alone.", answering(_advanced_by_the_last)
    ),
    Mutant("OWN-126", "advance_grammar", "The matcher goes on after its end.", answering(_goes_on_after_the_end)),
    Mutant("OWN-127", _CUT, "Matchers do not follow the run.", with_arguments(grammars=None)),
    Mutant("OWN-172", _CUT, "Rows go on after the stop.", answering(_nothing_is_cut_of_the_rows)),
)
