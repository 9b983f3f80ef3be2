"""Faults of schedules: lengths that read what is not judged, budgets, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np

from specsim.host.schedules import ScheduleHistory
from specsim.properties.mutants.record import Function, Named, answering, edits_of, mutants_of, with_arguments
from specsim.properties.strategies.arrays import Array


def _clipped(confidences: Array) -> Array:
    return np.clip(confidences, 0, 1)


def _without_debt(history: ScheduleHistory) -> ScheduleHistory:
    budget = history.verify_token_budget
    return replace(history, verify_token_budget=budget and max(budget, 0))


def _by_the_batch_before(correct: Function) -> Function:
    seen: list[Array] = []

    def answer(correct: Function, arguments: Named) -> Any:
        confidences = np.nan_to_num(arguments["confidences"])
        is_alike = bool(seen) and seen[-1].shape == confidences.shape
        arguments["confidences"] = seen[-1] if is_alike else confidences
        seen.append(confidences)
        return correct(**arguments)

    return answering(answer)(correct)


def _and_liked_the_draft_before(correct: Function) -> Function:
    """Remember the last draft that any request had, in this batch or an earlier one."""
    seen = [0]

    def decide(answer: bool, arguments: Named) -> bool:
        last = seen[-1]
        seen.extend(arguments["prefix_tokens"])
        return answer and last == 0

    return answering(lambda correct, arguments: decide(correct(**arguments), arguments))(correct)


MUTANTS = (
    *edits_of(
        """
        @@ choose_verify_lens
        OWN-4100 Drafts are ranked by the probability of the drawn token.
        - confidences[request, position] => draft_probs[request, position, draft_tokens[request, position]]
        OWN-4101 The budget is chosen by the step's own survivals.
        - budget = _best_budget(counts, history)
        + survivals, owners = np.nan_to_num(np.cumprod(confidences, axis=1)), history.row_generations
        + budget = _best_budget(counts, ScheduleHistory(survivals, owners, owners, history.steps_per_second))
        OWN-4102 Ties go to the larger token.
        - (-float(survival), position, request)
        + (-float(survival), (position, -draft_tokens[request, position]), request)
        OWN-4103 Ties go to the later draft.
        - (-float(survival), position, request) => (-float(survival), -position, request)
        OWN-4104 Drafts are ranked by the confidence of the next one.
        - confidences[request, position] => confidences[request, position + (position + 1 < count)]
        OWN-4105 Drafts are ranked by the confidence of the one after the next.
        - confidences[request, position] => confidences[request, position + 2 * (position + 2 < count)]
        OWN-4106 A length is decided by the first draft of the request before.
        - return verify_lens
        + for request, count in enumerate(counts):
        +     verify_lens[request] = 1 + count * (draft_tokens[request - 1, 0] > 0)
        + return verify_lens
        OWN-4108 Confidence is whether the drawn token is the likeliest.
        - survival *= confidences[request, position]
        + is_likeliest = draft_tokens[request, position] == draft_probs[request, position].argmax()
        + survival *= np.float32(0.75 if is_likeliest else 0.25)
        OWN-4109 A draft that repeats the one before is not verified.
        - return verify_lens
        + for request, tokens in enumerate(draft_tokens.tolist()):
        +     kept = tokens[: verify_lens[request] - 1]
        +     repeats = (place for place in range(1, len(kept)) if kept[place] == kept[place - 1])
        +     verify_lens[request] = 1 + next(repeats, len(kept))
        + return verify_lens
        OWN-4110 A draft that ends the text is not verified.
        - return verify_lens
        + for request, tokens in enumerate(draft_tokens.tolist()):
        +     verify_lens[request] = 1 + [*tokens[: verify_lens[request] - 1], 0].index(0)
        + return verify_lens
        OWN-4111 Fewer drafts are verified where the drawn ones are unlikely.
          budget = history.verify_token_budget
        + drawn = np.take_along_axis(draft_probs, np.maximum(draft_tokens, 0)[:, :, None], axis=2)
        + if np.nansum(drawn) < sum(counts) / 2:
        +     budget = min(len(counts), budget or 0)
        OWN-4112 Of two requests with equal drafts one is verified.
        - return verify_lens
        + rows = draft_tokens.tolist()
        + verify_lens[[row in rows[:place] for place, row in enumerate(rows)]] = 1
        + return verify_lens
        OWN-4113 Lengths leave the root out.
        - np.ones => np.zeros
        OWN-4114 Each request has as many drafts as the longest.
        - counts = num_drafts.tolist()
        + counts = [confidences.shape[1]] * len(num_drafts)
        + confidences = np.nan_to_num(confidences, nan=1.0)
        OWN-4115 One draft more than the budget is verified.
          budget = history.verify_token_budget
        + budget = None if budget is None else budget + 1
        OWN-4116 The given budget is not looked at.
        - budget = history.verify_token_budget => budget = None
        OWN-4117 A budget for all drafts counts as none.
          budget = history.verify_token_budget
        + budget = None if budget is None else budget % max(sum(counts), 1)
        OWN-4121 Drafts are ranked by confidence, not by survival.
        - (-float(survival), position, request) => (-float(confidences[request, position]), position, request)
        OWN-4123 All requests verify as many drafts as the least.
        - return verify_lens => return np.full_like(verify_lens, verify_lens.min())
        OWN-4124 The last verified draft is dropped where it is unlikely.
        - return verify_lens
        + for request, length in enumerate(verify_lens.tolist()):
        +     drawn = draft_probs[request, length - 2, draft_tokens[request, length - 2]]
        +     verify_lens[request] -= length > 1 and drawn < 0.5
        + return verify_lens
        OWN-4125 Lengths are no whole numbers.
        - np.int32 => np.float32
        @@ choose_verify_lens in _best_budget
        OWN-4107 A row's new owner has the old one's survivals.
        - history.survival_generations == history.row_generations => history.row_generations == history.row_generations
        @@ should_verify
        OWN-4130 The answer reads the draft that it is about.
        - confidence >= LEAST_CONFIDENCE => confidence >= LEAST_CONFIDENCE and prefix_tokens[position - 1] > 0
        OWN-4131 The answer slices the drafts up to its own.
        - confidence >= LEAST_CONFIDENCE
        + confidence >= LEAST_CONFIDENCE and all(token >= 0 for token in prefix_tokens[:position])
        OWN-4133 The answer is a number.
        - confidence >= LEAST_CONFIDENCE => float(confidence >= LEAST_CONFIDENCE)
        """
    ),
    *mutants_of(
        "choose_verify_lens",
        ("OWN-4118", "A confidence of NaN counts as 0.", with_arguments(confidences=np.nan_to_num)),
        ("OWN-4119", "Confidences outside 0 to 1 are clipped.", with_arguments(confidences=_clipped)),
        ("OWN-4120", "A budget below 0 counts as 0.", with_arguments(history=_without_debt)),
        ("OWN-4122", "Drafts are ranked by the confidences of the batch before.", _by_the_batch_before),
    ),
    *mutants_of(
        "should_verify",
        ("OWN-4132", "The answer depends on a draft of an earlier batch.", _and_liked_the_draft_before),
        ("OWN-4134", "A confidence of NaN counts as 0.", with_arguments(confidence=np.nan_to_num)),
        ("OWN-4135", "A confidence outside 0 to 1 is clipped.", with_arguments(confidence=_clipped)),
    ),
)
