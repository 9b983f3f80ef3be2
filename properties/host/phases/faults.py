"""Faults in what a batch carries from phase to phase and from iteration to iteration."""

from typing import Any

from specsim.phases import VerifyInput
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    answering,
    mutants_of_operations,
    with_arguments,
    with_fields,
)

_FILTERED, _MERGED = "return replace(phase, **changed)", "return replace(one, **changed)"
_FIELDS = "fields(EagleDraftExtendInput)"


def _verify_carried_over(correct: Function, arguments: Named) -> Any:
    one, other = arguments["one"], arguments["other"]
    return other if isinstance(one, VerifyInput) else correct(**arguments)


_EXPECT = "expect_phase"
_FILTER = "filter_batch"
_MERGE = "merge_batch"
_CONVERT = "to_frozen_kv_mtp_draft_extend_input"
_IS_DRAFT = "is_draft_input"
_IS_VERIFY = "is_verify_input"
_ROWS_OF_A_REQUEST = "get_spec_adjust_token_coefficient"
_ROWS_OF_RANKS = "get_spec_adjusted_global_num_tokens"

MUTANTS = mutants_of_operations(
    {
        ("X13", _EXPECT, "One draft input is taken for another, so draft rows go to extend."): edited(
            "got not in tags",
            """
                got not in tags and not (
                    isinstance(value, Phase) and is_draft_input(value) and any("DRAFT" in tag for tag in tags)
                )
                """,
        ),
        ("OWN-202", _EXPECT, "Whatever has requests is taken."): edited(
            "got not in tags", "got not in tags and not isinstance(value, Phase)"
        ),
        ("S02", _FILTER, "One field is cut to its first rows while the others are indexed."): edited(
            _FILTERED,
            f"""
                name = "num_accepted_drafts" if isinstance(phase, EagleDraftExtendInput) else "seq_lens"
                changed[name] = getattr(phase, name)[: len(places)]
                {_FILTERED}
                """,
        ),
        ("S03", _FILTER, "The first rows stay instead of those asked for."): with_arguments(
            indices=lambda places: range(len(places))
        ),
        ("OWN-203", _FILTER, "Tokens are cut into segments of one width."): edited(
            _FILTERED,
            f"""
                if isinstance(phase, EagleDraftExtendInput) and places:
                    width = max(len(phase.input_ids) // phase.num_requests, 1)
                    counts = phase.num_accepted_tokens_cpu
                    tokens = [place * width + token for place in places for token in range(counts[place])]
                    changed["input_ids"] = phase.input_ids[[token % len(phase.input_ids) for token in tokens]]
                {_FILTERED}
                """,
        ),
        ("OWN-204", _FILTER, "An already filtered batch may have any size."): edited(
            "count != phase.num_requests", "False", within="_already_filtered"
        ),
        ("OWN-205", _FILTER, "Places in the relay are cut to the first."): edited(
            _FILTERED,
            f"""
                if is_relayed:
                    changed["future_indices"] = phase.future_indices[: len(places)]
                {_FILTERED}
                """,
        ),
        ("OWN-206", _FILTER, "A place outside the batch wraps around."): edited(
            "int(place)", "int(place) % max(phase.num_requests, 1)"
        ),
        ("OWN-207", _MERGE, "Hidden states of the second batch come first."): edited(
            _MERGED,
            f"""
                changed["hidden_states"] = _join(one, "hidden_states", other.hidden_states, one.hidden_states)
                {_MERGED}
                """,
        ),
        ("OWN-208", _MERGE, "Whatever has no hidden states counts as empty."): edited(
            "one.num_requests == 0", "one.num_requests == 0 or one.hidden_states is None"
        ),
        ("OWN-209", _MERGE, "An empty batch stays empty."): edited("return other", "return one"),
        ("OWN-210", _MERGE, "Two classes merge if they have the same fields."): edited(
            "type(one) is not type(other)",
            "type(one) is not type(other) and not (isinstance(one, DraftInput) and isinstance(other, DraftInput))",
        ),
        ("OWN-211", _MERGE, "A verify input left over from the last batch merges."): answering(_verify_carried_over),
        ("OWN-212", _CONVERT, "What has the tag already is copied."): with_fields(lambda *_: {}),
        ("OWN-213", _CONVERT, "The tag stays that of EAGLE."): edited(
            "isinstance(phase, FrozenKVMTPDraftExtendInput)", "isinstance(phase, EagleDraftExtendInput)"
        ),
        ("OWN-214", _CONVERT, "Fields that extend fills in are not copied."): edited(
            _FIELDS,
            f"""
                [
                    field
                    for field in {_FIELDS}
                    if field.name not in ("positions", "bonus_tokens", "num_tokens_per_req")
                ]
                """,
        ),
        ("OWN-215", _IS_DRAFT, "An extend input is none."): edited(
            "phase.tag.input_type is not None", "isinstance(phase, DraftInput)"
        ),
        ("OWN-216", _IS_VERIFY, "Whatever is no draft input is one."): edited(
            "phase.tag.input_type is not None and phase.tag.input_type.is_verify_input()",
            "not is_draft_input(phase)",
        ),
        ("OWN-217", _ROWS_OF_A_REQUEST, "Every row of a ragged extend yields logits."): edited(
            "phase.num_tokens_for_logprob_per_req", "count"
        ),
        ("OWN-218", _ROWS_OF_A_REQUEST, "A verify has as many rows as a path, not as nodes."): edited(
            "phase.num_tokens_per_req, phase.num_tokens_per_req",
            "max(phase.num_tokens_per_req - isinstance(phase, VerifyInput), 1), phase.num_tokens_per_req",
        ),
        ("OWN-219", _ROWS_OF_RANKS, "Both lists are multiplied by the rows of a request."): edited(
            "[count * for_logprob for count in global_num_tokens_for_logprob]",
            "[count * per_request for count in global_num_tokens]",
        ),
    }
)
