"""Faults in what a batch carries from phase to phase and from iteration to iteration."""

from specsim.phases import VerifyInput
from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ expect_phase
    X13 One draft input is taken for another, so draft rows go to extend.
    - got not in tags
    + got not in tags and not (isinstance(value, Phase) and is_draft_input(value) and "DRAFT" in "".join(tags))
    OWN-202 Whatever has requests is taken.
    - got not in tags => got not in tags and not isinstance(value, Phase)
    @@ filter_batch
    S02 One field is cut to its first rows while the others are indexed.
    - return replace(phase, **changed)
    + name = "num_accepted_drafts" if isinstance(phase, EagleDraftExtendInput) else "seq_lens"
    + changed[name] = getattr(phase, name)[: len(places)]
    + return replace(phase, **changed)
    OWN-203 Tokens are cut into segments of one width.
    - return replace(phase, **changed)
    + if isinstance(phase, EagleDraftExtendInput) and places:
    +     width = max(len(phase.input_ids) // phase.num_requests, 1)
    +     counts = phase.num_accepted_tokens_cpu
    +     tokens = [place * width + token for place in places for token in range(counts[place])]
    +     changed["input_ids"] = phase.input_ids[[token % len(phase.input_ids) for token in tokens]]
    + return replace(phase, **changed)
    OWN-205 Places in the relay are cut to the first.
    - return replace(phase, **changed)
    + if is_relayed:
    +     changed["future_indices"] = phase.future_indices[: len(places)]
    + return replace(phase, **changed)
    S03 The first rows stay instead of those asked for.
    - [int(place) for place in indices] => [*range(len(indices))]
    OWN-206 A place outside the batch wraps around.
    - int(place) => int(place) % max(phase.num_requests, 1)
    @@ filter_batch in _already_filtered
    OWN-204 An already filtered batch may have any size.
    - count != phase.num_requests => False
    @@ merge_batch
    OWN-207 Hidden states of the second batch come first.
    - return replace(one, **changed)
    + changed["hidden_states"] = _join(one, "hidden_states", other.hidden_states, one.hidden_states)
    + return replace(one, **changed)
    OWN-208 Whatever has no hidden states counts as empty.
    - one.num_requests == 0 => one.num_requests == 0 or one.hidden_states is None
    OWN-209 An empty batch stays empty.
    - return other => return one
    OWN-211 A verify input left over from the last batch merges.
    - _require_joinable(one)
    + if isinstance(one, VerifyInput):
    +     return other
    + _require_joinable(one)
    OWN-210 Two classes merge if they have the same fields.
    - type(one) is not type(other)
    + type(one) is not type(other) and not (isinstance(one, DraftInput) and isinstance(other, DraftInput))
    @@ to_frozen_kv_mtp_draft_extend_input
    OWN-212 What has the tag already is copied.
    - isinstance(phase, FrozenKVMTPDraftExtendInput) => False
    OWN-213 The tag stays that of EAGLE.
    - isinstance(phase, FrozenKVMTPDraftExtendInput) => isinstance(phase, EagleDraftExtendInput)
    OWN-214 Fields that extend fills in are not copied.
    - fields(EagleDraftExtendInput)
    + [one for one in fields(EagleDraftExtendInput)
    +     if one.name not in ("positions", "bonus_tokens", "num_tokens_per_req")]
    @@ is_draft_input
    OWN-215 An extend input is none.
    - phase.tag.input_type is not None => isinstance(phase, DraftInput)
    @@ is_verify_input
    OWN-216 Whatever is no draft input is one.
    - phase.tag.input_type is not None and phase.tag.input_type.is_verify_input() => not is_draft_input(phase)
    @@ get_spec_adjust_token_coefficient
    OWN-217 Every row of a ragged extend yields logits.
    - phase.num_tokens_for_logprob_per_req => count
    OWN-218 A verify has as many rows as a path, not as nodes.
    - phase.num_tokens_per_req, phase.num_tokens_per_req
    + max(phase.num_tokens_per_req - isinstance(phase, VerifyInput), 1), phase.num_tokens_per_req
    @@ get_spec_adjusted_global_num_tokens
    OWN-219 Both lists are multiplied by the rows of a request.
    - [count * for_logprob for count in global_num_tokens_for_logprob]
    + [count * per_request for count in global_num_tokens]
    """,
    VerifyInput=VerifyInput,
)
