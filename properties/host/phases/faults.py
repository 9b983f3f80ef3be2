"""Faults in what a batch carries from phase to phase and from iteration to iteration."""

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np

from specsim.phases import DraftInput, EagleDraftExtendInput, Phase, VerifyInput, is_draft_input
from specsim.phases.extend import NOT_SET
from specsim.properties.mutants.record import Function, Mutant, Named, answering


def _any_draft_input(correct: Function, arguments: Named) -> Any:
    value, tag = arguments["value"], arguments["tag"]
    if isinstance(value, Phase) and is_draft_input(value) and "DRAFT" in tag:
        return None
    return correct(**arguments)


def _anything_with_rows(correct: Function, arguments: Named) -> Any:
    return None if isinstance(arguments["value"], Phase) else correct(**arguments)


def _first_rows(correct: Function, arguments: Named) -> Any:
    kept = range(len(arguments["indices"]))
    return correct(**{**arguments, "indices": kept})


def _a_field_forgotten(correct: Function, arguments: Named) -> Any:
    phase, filtered = arguments["phase"], correct(**arguments)
    name = "num_accepted_drafts" if isinstance(phase, EagleDraftExtendInput) else "seq_lens"
    return replace(filtered, **{name: getattr(phase, name)[: filtered.num_requests]})


def _one_width(correct: Function, arguments: Named) -> Any:
    phase, filtered = arguments["phase"], correct(**arguments)
    if not isinstance(phase, EagleDraftExtendInput) or not filtered.num_requests:
        return filtered
    width = max(len(phase.input_ids) // phase.num_requests, 1)
    starts = np.repeat(np.asarray(arguments["indices"]) * width, filtered.num_accepted_tokens_cpu)
    ends = np.cumsum(filtered.num_accepted_tokens_cpu)
    within = np.arange(len(starts)) - np.repeat(ends - filtered.num_accepted_tokens_cpu, filtered.num_accepted_tokens)
    rows = (starts + within) % len(phase.input_ids)
    return replace(filtered, input_ids=phase.input_ids[rows])


def _count_not_compared(correct: Function, arguments: Named) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return correct(**{**arguments, "strict": False})


def _relay_sliced(correct: Function, arguments: Named) -> Any:
    phase = arguments["phase"]
    filtered = correct(**arguments)
    if not isinstance(phase, DraftInput) or phase.future_indices is None:
        return filtered
    return replace(filtered, future_indices=phase.future_indices[: filtered.num_requests])


def _wrapping_places(correct: Function, arguments: Named) -> Any:
    count = max(arguments["phase"].num_requests, 1)
    return correct(**{**arguments, "indices": [place % count for place in arguments["indices"]]})


def _other_hidden_states_first(correct: Function, arguments: Named) -> Any:
    merged, other = correct(**arguments), arguments["other"]
    if merged.hidden_states is None or merged is other:
        return merged
    return replace(merged, hidden_states=np.roll(merged.hidden_states, len(other.hidden_states), axis=0))


def _idle_by_hidden_states(correct: Function, arguments: Named) -> Any:
    return arguments["other"] if arguments["one"].hidden_states is None else correct(**arguments)


def _idle_adopts_nothing(correct: Function, arguments: Named) -> Any:
    return arguments["one"] if not arguments["one"].num_requests else correct(**arguments)


def _classes_mixed(correct: Function, arguments: Named) -> Any:
    one, other = arguments["one"], arguments["other"]
    if isinstance(one, DraftInput) and isinstance(other, DraftInput):
        values = {field.name: getattr(other, field.name) for field in fields(other)}
        return correct(one, type(one)(**values))
    return correct(**arguments)


def _verify_carried_over(correct: Function, arguments: Named) -> Any:
    one, other = arguments["one"], arguments["other"]
    return other if isinstance(one, VerifyInput) else correct(**arguments)


def _always_copied(correct: Function, arguments: Named) -> Any:
    return replace(correct(**arguments))


def _not_converted(correct: Function, arguments: Named) -> Any:
    correct(**arguments)
    return arguments["phase"]


def _a_field_not_copied(correct: Function, arguments: Named) -> Any:
    converted = correct(**arguments)
    return (
        converted
        if converted is arguments["phase"]
        else replace(converted, positions=None, bonus_tokens=None, num_tokens_per_req=NOT_SET)
    )


def _extend_is_no_draft_input(correct: Function, arguments: Named) -> Any:
    return correct(**arguments) and isinstance(arguments["phase"], DraftInput)


def _what_is_no_draft_input(correct: Function, arguments: Named) -> Any:
    return not is_draft_input(arguments["phase"])


def _logits_of_every_row(correct: Function, arguments: Named) -> Any:
    per_request, _ = correct(**arguments)
    return per_request, per_request


def _width_of_the_path(correct: Function, arguments: Named) -> Any:
    per_request, for_logprob = correct(**arguments)
    if isinstance(arguments["phase"], VerifyInput):
        return max(per_request - 1, 1), for_logprob
    return per_request, for_logprob


def _both_lists_alike(correct: Function, arguments: Named) -> Any:
    tokens, _ = correct(**arguments)
    return tokens, list(tokens)


_EXPECT, _FILTER, _MERGE = "expect_phase", "filter_batch", "merge_batch"
_CONVERT = "to_frozen_kv_mtp_draft_extend_input"

MUTANTS = (
    Mutant(
        "X13", _EXPECT, "One draft input is taken for another, so draft rows go to extend.", answering(_any_draft_input)
    ),
    Mutant("OWN-202", _EXPECT, "Whatever has requests is taken.", answering(_anything_with_rows)),
    Mutant(
        "S02",
        _FILTER,
        "One field is cut to its first rows while the others are indexed.",
        answering(_a_field_forgotten),
    ),
    Mutant("S03", _FILTER, "The first rows stay instead of those asked for.", answering(_first_rows)),
    Mutant("OWN-203", _FILTER, "Tokens are cut into segments of one width.", answering(_one_width)),
    Mutant("OWN-204", _FILTER, "An already filtered batch may have any size.", answering(_count_not_compared)),
    Mutant("OWN-205", _FILTER, "Places in the relay are cut to the first.", answering(_relay_sliced)),
    Mutant("OWN-206", _FILTER, "A place outside the batch wraps around.", answering(_wrapping_places)),
    Mutant("OWN-207", _MERGE, "Hidden states of the second batch come first.", answering(_other_hidden_states_first)),
    Mutant("OWN-208", _MERGE, "Whatever has no hidden states counts as empty.", answering(_idle_by_hidden_states)),
    Mutant("OWN-209", _MERGE, "An empty batch stays empty.", answering(_idle_adopts_nothing)),
    Mutant("OWN-210", _MERGE, "Two classes merge if they have the same fields.", answering(_classes_mixed)),
    Mutant("OWN-211", _MERGE, "A verify input left over from the last batch merges.", answering(_verify_carried_over)),
    Mutant("OWN-212", _CONVERT, "What has the tag already is copied.", answering(_always_copied)),
    Mutant("OWN-213", _CONVERT, "The tag stays that of EAGLE.", answering(_not_converted)),
    Mutant("OWN-214", _CONVERT, "Fields that extend fills in are not copied.", answering(_a_field_not_copied)),
    Mutant("OWN-215", "is_draft_input", "An extend input is none.", answering(_extend_is_no_draft_input)),
    Mutant("OWN-216", "is_verify_input", "Whatever is no draft input is one.", answering(_what_is_no_draft_input)),
    Mutant(
        "OWN-217",
        "get_spec_adjust_token_coefficient",
        "Every row of a ragged extend yields logits.",
        answering(_logits_of_every_row),
    ),
    Mutant(
        "OWN-218",
        "get_spec_adjust_token_coefficient",
        "A verify has as many rows as a path, not as nodes.",
        answering(_width_of_the_path),
    ),
    Mutant(
        "OWN-219",
        "get_spec_adjusted_global_num_tokens",
        "Both lists are multiplied by the rows of a request.",
        answering(_both_lists_alike),
    ),
)
