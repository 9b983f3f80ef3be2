"""Faults of schedules: lengths that read what is not judged, budgets, and what is refused."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Named, answering, given, mutants_of, with_arguments
from specsim.properties.strategies.arrays import Array

Order = Callable[[int, int, int], Any]
"""Orders drafts of equal survival, by position, request and token."""


def _drawn_probability(arguments: Named) -> Array:
    tokens = np.maximum(arguments["draft_tokens"], 0)
    return np.take_along_axis(arguments["draft_probs"], tokens[:, :, None], axis=2)[:, :, 0]


def _by_the_drawn_token(arguments: Named) -> None:
    arguments["confidences"] = _drawn_probability(arguments)


def _by_agreement_with_argmax(arguments: Named) -> None:
    is_likeliest = arguments["draft_tokens"] == arguments["draft_probs"].argmax(axis=2)
    arguments["confidences"] = np.where(is_likeliest, np.float32(0.75), np.float32(0.25))


def _budget_of_this_step(arguments: Named) -> None:
    """Take the survivals of the step's own drafts for those of an earlier step."""
    history = arguments["history"]
    survivals = np.nan_to_num(np.cumprod(arguments["confidences"], axis=1))
    arguments["history"] = replace(history, survivals=survivals, survival_generations=history.row_generations)


def _budget_of_drawn_tokens(arguments: Named) -> None:
    """Verify one draft a request where this step's draws are unlikely."""
    history = arguments["history"]
    if np.nansum(_drawn_probability(arguments)) < np.sum(arguments["num_drafts"]) / 2:
        budget = min(len(arguments["num_drafts"]), history.verify_token_budget or 0)
        arguments["history"] = replace(history, verify_token_budget=budget)


def _any_owner(arguments: Named) -> None:
    history = arguments["history"]
    arguments["history"] = replace(history, survival_generations=history.row_generations)


def _shifted(levels: int) -> Callable[[Function], Function]:
    """Decide about each draft by the confidence of a later one, where there is one."""

    def shift(arguments: Named) -> None:
        confidences = arguments["confidences"].copy()
        for row, count in zip(confidences, arguments["num_drafts"].tolist(), strict=True):
            row[: max(count - levels, 0)] = row[levels : max(count, levels)]
        arguments["confidences"] = confidences

    return given(shift)


def _in_order(order: Order, *, is_product: bool = True) -> Callable[[Function], Function]:
    """Verify as many drafts as ever, those of equal survival in another order."""

    def answer(correct: Function, arguments: Named) -> Array:
        verify_lens = correct(**arguments)
        confidences, tokens = arguments["confidences"], arguments["draft_tokens"]
        shares = np.cumprod(confidences, axis=1) if is_product else confidences
        ranked = sorted(
            (-float(shares[request, place]), order(place, request, int(tokens[request, place])), request)
            for request, count in enumerate(arguments["num_drafts"].tolist())
            for place in range(count)
        )
        kept = [request for _, _, request in ranked[: int(np.sum(verify_lens - 1))]]
        return np.array([1 + kept.count(request) for request in range(len(verify_lens))], dtype=np.int32)

    return answering(answer)


def _lengths(change: Callable[[Array, Named], Sequence[int] | Array]) -> Callable[[Function], Function]:
    """Inject a fault in the lengths that were chosen."""
    return answering(lambda correct, arguments: np.asarray(change(correct(**arguments), arguments), dtype=np.int32))


def _by_the_other_request(verify_lens: Array, arguments: Named) -> list[int]:
    tokens, counts = arguments["draft_tokens"], arguments["num_drafts"].tolist()
    return [1 + count * int(tokens[place - 1, 0] > 0) for place, count in enumerate(counts)]


def _cut_where(is_cut: Callable[[Array, int], bool]) -> Callable[[Function], Function]:
    """Cut each request's drafts before the first that its tokens speak against."""

    def change(verify_lens: Array, arguments: Named) -> list[int]:
        lengths = []
        for tokens, length in zip(arguments["draft_tokens"], verify_lens.tolist(), strict=True):
            places = (place for place in range(length - 1) if is_cut(tokens, place))
            lengths.append(1 + next(places, length - 1))
        return lengths

    return _lengths(change)


def _without_an_unlikely_last(verify_lens: Array, arguments: Named) -> list[int]:
    shares = _drawn_probability(arguments)
    return [
        length - int(length > 1 and shares[place, length - 2] < 0.5)
        for place, length in enumerate(verify_lens.tolist())
    ]


def _none_of_a_twin(verify_lens: Array, arguments: Named) -> list[int]:
    rows = arguments["draft_tokens"].tolist()
    return [1 if rows[place] in rows[:place] else length for place, length in enumerate(verify_lens.tolist())]


def _by_the_batch_before(correct: Function) -> Function:
    seen: list[Array] = []

    def answer(correct: Function, arguments: Named) -> Any:
        confidences = np.nan_to_num(arguments["confidences"])
        is_alike = bool(seen) and seen[-1].shape == confidences.shape
        arguments["confidences"] = seen[-1] if is_alike else confidences
        seen.append(confidences)
        return correct(**arguments)

    return answering(answer)(correct)


def _repeats(tokens: Array, place: int) -> bool:
    return place > 0 and bool(tokens[place] == tokens[place - 1])


def _ends(tokens: Array, place: int) -> bool:
    return bool(tokens[place] == 0)


def _least(verify_lens: Array, arguments: Named) -> Array:
    return np.full_like(verify_lens, verify_lens.min())


def _clipped(confidences: Array) -> Array:
    return np.clip(confidences, 0, 1)


def _by_place(place: int, request: int, token: int) -> tuple[int, int]:
    return place, request


def _all_columns(arguments: Named) -> None:
    most = arguments["confidences"].shape[1]
    arguments["num_drafts"] = np.full_like(arguments["num_drafts"], most)
    arguments["confidences"] = np.nan_to_num(arguments["confidences"], nan=1.0)


def _budget(change: Callable[[int, int], int | None]) -> Callable[[Function], Function]:
    """Inject another budget for the one that is given, of which it is a function and of the number of drafts."""

    def edit(arguments: Named) -> None:
        history, total = arguments["history"], int(np.sum(arguments["num_drafts"]))
        if history.verify_token_budget is not None:
            budget = change(history.verify_token_budget, total)
            arguments["history"] = replace(history, verify_token_budget=budget)

    return given(edit)


def _asking(decide: Callable[[bool, Named], Any]) -> Callable[[Function], Function]:
    """Inject a fault in the answer about one draft."""
    return answering(lambda correct, arguments: decide(correct(**arguments), arguments))


def _and_likes_the_draft(answer: bool, arguments: Named) -> bool:
    return answer and arguments["prefix_tokens"][arguments["position"] - 1] > 0


def _and_likes_all_up_to_it(answer: bool, arguments: Named) -> bool:
    return answer and all(token >= 0 for token in arguments["prefix_tokens"][: arguments["position"]])


def _and_liked_the_draft_before(correct: Function) -> Function:
    """Remember the last draft that any request had, in this batch or an earlier one."""
    seen = [0]

    def decide(answer: bool, arguments: Named) -> bool:
        last = seen[-1]
        seen.extend(arguments["prefix_tokens"])
        return answer and last == 0

    return _asking(decide)(correct)


_floats = answering(lambda correct, arguments: correct(**arguments).astype(np.float32))

MUTANTS = (
    *mutants_of(
        "choose_verify_lens",
        ("OWN-4100", "Drafts are ranked by the probability of the drawn token.", given(_by_the_drawn_token)),
        ("OWN-4101", "The budget is chosen by the step's own survivals.", given(_budget_of_this_step)),
        ("OWN-4102", "Ties go to the larger token.", _in_order(lambda place, request, token: (place, -token))),
        ("OWN-4103", "Ties go to the later draft.", _in_order(lambda place, request, token: (-place, request))),
        ("OWN-4104", "Drafts are ranked by the confidence of the next one.", _shifted(1)),
        ("OWN-4105", "Drafts are ranked by the confidence of the one after the next.", _shifted(2)),
        ("OWN-4106", "A length is decided by the first draft of the request before.", _lengths(_by_the_other_request)),
        ("OWN-4107", "A row's new owner has the old one's survivals.", given(_any_owner)),
        ("OWN-4108", "Confidence is whether the drawn token is the likeliest.", given(_by_agreement_with_argmax)),
        ("OWN-4109", "A draft that repeats the one before is not verified.", _cut_where(_repeats)),
        ("OWN-4110", "A draft that ends the text is not verified.", _cut_where(_ends)),
        ("OWN-4111", "Fewer drafts are verified where the drawn ones are unlikely.", given(_budget_of_drawn_tokens)),
        ("OWN-4112", "Of two requests with equal drafts one is verified.", _lengths(_none_of_a_twin)),
        ("OWN-4113", "Lengths leave the root out.", _lengths(lambda verify_lens, arguments: verify_lens - 1)),
        ("OWN-4114", "Each request has as many drafts as the longest.", given(_all_columns)),
        ("OWN-4115", "One draft more than the budget is verified.", _budget(lambda budget, total: budget + 1)),
        ("OWN-4116", "The given budget is not looked at.", _budget(lambda budget, total: None)),
        ("OWN-4117", "A budget for all drafts counts as none.", _budget(lambda budget, total: budget % max(total, 1))),
        ("OWN-4118", "A confidence of NaN counts as 0.", with_arguments(confidences=np.nan_to_num)),
        ("OWN-4119", "Confidences outside 0 to 1 are clipped.", with_arguments(confidences=_clipped)),
        ("OWN-4120", "A budget below 0 counts as 0.", _budget(lambda budget, total: max(budget, 0))),
        ("OWN-4121", "Drafts are ranked by confidence, not by survival.", _in_order(_by_place, is_product=False)),
        ("OWN-4122", "Drafts are ranked by the confidences of the batch before.", _by_the_batch_before),
        ("OWN-4123", "All requests verify as many drafts as the least.", _lengths(_least)),
        ("OWN-4124", "The last verified draft is dropped where it is unlikely.", _lengths(_without_an_unlikely_last)),
        ("OWN-4125", "Lengths are no whole numbers.", _floats),
    ),
    *mutants_of(
        "should_verify",
        ("OWN-4130", "The answer reads the draft that it is about.", _asking(_and_likes_the_draft)),
        ("OWN-4131", "The answer slices the drafts up to its own.", _asking(_and_likes_all_up_to_it)),
        ("OWN-4132", "The answer depends on a draft of an earlier batch.", _and_liked_the_draft_before),
        ("OWN-4133", "The answer is a number.", _asking(lambda answer, arguments: float(answer))),
        ("OWN-4134", "A confidence of NaN counts as 0.", with_arguments(confidence=np.nan_to_num)),
        ("OWN-4135", "A confidence outside 0 to 1 is clipped.", with_arguments(confidence=_clipped)),
    ),
)
