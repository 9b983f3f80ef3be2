"""Laws of scheduled verification: who is admitted to a budget, which budget is best, and which graph runs it."""

from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.budget import CapturedTimes, ForcedShare, StepRates, StepTimes
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, require_kind, states
from specsim.properties.operations.scheduled import strategy as strategies
from specsim.properties.operations.scheduled import strategy_budgets as budgets
from specsim.properties.operations.scheduled.strategy_budgets import Budgeting, Tiers

_SCHEDULE = "schedule_verify_lens"


def admitted_drafts_keep_to_the_budget(backend: Backend, case: Case) -> None:
    """A request has its free rows at least, the root always, and no more drafts than exist; all others are paid for."""
    lens, free = _lens(backend, case), max(case["min_verify_len"], 1)
    num_paid = lens - free
    most = case["num_drafts"] if case["num_drafts"] is not None else np.full(len(lens), case["confidence"].shape[1])
    for request, paid in enumerate(num_paid.tolist()):
        require(0 <= paid <= case["max_verify_len"] - free, f"paid rows of request {request}", paid, "in its bounds")
        require(paid <= most[request], f"paid drafts of request {request}", paid, f"at most {most[request]}")
    total = int(num_paid.sum())
    require(total <= case["verify_token_budget"], "paid rows", total, f"at most {case['verify_token_budget']}")


def the_budget_is_spent(backend: Backend, case: Case) -> None:
    """Where only roots are free, as many drafts are admitted as can survive, or as the budget has."""
    plain = _plain(case)
    expected = min(len(_candidates(plain)), case["verify_token_budget"])
    require_equal("admitted drafts", int((_lens(backend, plain) - 1).sum()), expected)


def free_rows_come_on_top(backend: Backend, case: Case) -> None:
    """Rows that cost nothing are added to what the budget admits; a request without any has its root all the same."""
    plain, least = _plain(case), case["min_verify_len"]
    num_admitted, most = _lens(backend, plain) - 1, plain["max_verify_len"]
    expected = np.clip(least + num_admitted, max(least, 1), most)
    require_equal("verify_lens", _lens(backend, {**plain, "min_verify_len": least}), expected)


def no_better_draft_is_left_out(backend: Backend, case: Case) -> None:
    """Of two drafts that can survive the one that survives more often is admitted first, of equals the earlier one.

    Of equals at one position that of the first request is.
    """
    plain = _plain(case)
    lens = _lens(backend, plain)
    ranks = [(-survival, draft, request) for survival, draft, request in _candidates(plain)]
    admitted = [rank for rank in ranks if rank[1] < lens[rank[2]] - 1]
    left_out = [rank for rank in ranks if rank[1] >= lens[rank[2]] - 1]
    if admitted and left_out:
        last, first = max(admitted), min(left_out)
        require(last < first, "(-survival, position, request) of the last draft", last, f"before {first}")


def lengths_grow_with_the_budget(backend: Backend, case: Case) -> None:
    """One draft more of budget takes no draft from anybody, and adds at most one."""
    budgets_tried = sorted({0, *range(max(case["verify_token_budget"] - 2, 0), case["confidence"].size + 1)})[:8]
    lens = [_lens(backend, {**case, "verify_token_budget": budget}) for budget in budgets_tried]
    for (less, fewer), (more, many) in pairwise(zip(budgets_tried, lens, strict=True)):
        grown = many - fewer
        require(bool((grown >= 0).all()), f"lengths with a budget of {more}", many.tolist(), f"at least {fewer}")
        require(int(grown.sum()) <= more - less, f"rows that {more - less} more bought", int(grown.sum()), "no more")


def requests_are_scheduled_in_any_order(backend: Backend, case: Case) -> None:
    """Without equal survivals each request has the same length wherever it stands in the batch."""
    lens = _lens(backend, case)
    everyone = np.arange(len(lens))
    for order in (everyone[::-1], np.roll(everyone, 1)):
        moved = {**case, "confidence": case["confidence"][order]}
        if case["num_drafts"] is not None:
            moved["num_drafts"] = case["num_drafts"][order]
        require_equal(f"verify_lens in the order {order.tolist()}", _lens(backend, moved), lens[order])


def confidences_after_the_cut_are_not_read(backend: Backend, case: Case) -> None:
    """What is thought of drafts after the first that is left out changes no length: they may depend on that draft."""
    plain = _plain(case)
    lens = _lens(backend, plain)
    after = np.arange(plain["confidence"].shape[1])[None, :] > (lens - 1)[:, None]
    for other in (0.0, 1.0):
        changed = np.where(after, np.float32(other), plain["confidence"]).astype(np.float32)
        got = _lens(backend, {**plain, "confidence": changed})
        require_equal(f"verify_lens with {other} after the cuts", got, lens)


def the_budget_yields_most_in_its_time(backend: Backend, case: Budgeting) -> None:
    """No budget gives more tokens in the time of its step, and no smaller one as many."""
    counted = sorted((Fraction(one) for one in case.survivals if one >= case.survival_eps), reverse=True)
    counted = counted[: case.max_budget]
    own_rows = case.num_requests if case.num_rows is None else case.num_rows
    yields = [
        _yield_of(case.costs, tokens, case.num_requests, own_rows + budget)
        for budget, tokens in enumerate(accumulate(counted, initial=Fraction(case.num_requests)))
    ]
    got = _budget(backend, case)
    require(0 <= got < len(yields), "the budget", got, f"0 to {len(yields) - 1}")
    best = yields.index(max(yields))
    require(got == best, "the budget", got, f"{best}, of yields {[float(one) for one in yields]}")


def without_a_measured_cost_everything_is_verified(backend: Backend, case: Budgeting) -> None:
    """Costs that were never measured admit every draft that can survive and that there is room for."""
    most = sum(survival >= case.survival_eps for survival in case.survivals)
    require_equal("the budget", _budget(backend, case), most if case.max_budget is None else min(most, case.max_budget))


def a_forced_share_is_rounded_down(backend: Backend, case: Budgeting) -> None:
    """A forced share of all drafts is the budget, whatever they are worth, as far as there is room."""
    costs = require_kind("costs", case.costs, ForcedShare)
    share = int(Fraction(costs.share) * case.num_requests * costs.num_drafts)
    expected = share if case.max_budget is None else min(share, case.max_budget)
    require_equal("the budget", _budget(backend, case), expected)


def ranks_run_the_graph_of_the_largest(backend: Backend, case: Tiers) -> None:
    """A batch needs its roots, free rows and budget, no more than whole chains; ranks agree on the most, or on none."""
    tier_of = backend.host("verify_graph_tier")
    tiers = [tier_of(requests, budget, case.num_draft_tokens, case.min_verify_len) for requests, budget in case.batches]
    for place, (requests, budget) in enumerate(case.batches):
        rows = [requests * case.num_draft_tokens]
        rows += [] if budget is None else [budget + requests * max(1, case.min_verify_len)]
        require_equal(f"tier of rank {place}", tiers[place], min(rows) if budget is not None else -1)
    got = backend.host("agree_on_tier")(tiers)
    expected = max(tiers, default=0) if all(budget is not None for _, budget in case.batches) else None
    require(got == expected, f"what ranks with tiers {tiers} agree on", got, expected)


def an_aligned_budget_fills_its_graph(backend: Backend, case: Tiers) -> None:
    """The budget is raised until it fills the graph that has to run anyway, or every chain, and never falls."""
    for requests, budget in case.batches:
        if budget is None:
            continue
        align = backend.host("align_verify_budget")
        got = align(budget, requests, case.num_draft_tokens, case.captured, case.min_verify_len)
        free, whole = requests * max(1, case.min_verify_len), requests * case.num_draft_tokens
        sizes = [size for size in case.captured if size >= min(free + budget, whole)]
        expected = max(budget, min(sizes[0], whole) - free) if sizes else budget
        require(got == expected, f"aligned budget of {requests} requests and {budget} drafts", got, expected)


def _plain(case: Case) -> Case:
    """Return the call with free roots, and with no longest length."""
    return {**case, "min_verify_len": 1, "max_verify_len": case["confidence"].shape[1] + 1}


def _lens(backend: Backend, case: Case) -> Array:
    return np.asarray(outputs_of(backend, _SCHEDULE, case)["verify_lens"]).astype(np.int64)


def _candidates(case: Case) -> list[tuple[float, int, int]]:
    """Return (survival, position, request) of the drafts of a plain call that exist and can survive."""
    confidence, eps = case["confidence"], case["survival_eps"]
    least = np.float32(1e-6) if eps is None else eps[0]
    survival = np.ones(len(confidence), dtype=np.float32)
    found = []
    for draft in range(confidence.shape[1]):
        survival = survival * confidence[:, draft]
        for request in range(len(confidence)):
            exists = case["num_drafts"] is None or draft < case["num_drafts"][request]
            if exists and survival[request] >= least:
                found.append((float(survival[request]), draft, request))
    return found


def _budget(backend: Backend, case: Budgeting) -> Any:
    return backend.host("verify_token_budget")(
        case.survivals, case.num_requests, case.costs, case.num_rows, case.max_budget, case.survival_eps
    )


def _yield_of(costs: Any, tokens: Fraction, num_requests: int, num_rows: int) -> Fraction:
    """Return the tokens that a step yields in its time, from the tables by hand."""
    if isinstance(costs, StepRates):
        known = [rate for probe, rate in zip(costs.probes, costs.rates, strict=True) if probe <= num_rows]
        return tokens * Fraction(known[-1] if known else costs.rates[0])
    if isinstance(costs, StepTimes):
        of_requests = _line(costs.request_probes, costs.request_times, num_requests)
        return tokens / (Fraction(costs.bias) + of_requests + _line(costs.row_probes, costs.row_times, num_rows))
    times = require_kind("costs", costs, CapturedTimes)
    of_draft = _next_size(times.draft_probes, times.draft_times, num_requests)
    return tokens / (of_draft + _next_size(times.verify_probes, times.verify_times, num_rows))


def _line(probes: tuple[int, ...], values: tuple[float, ...], size: int) -> Fraction:
    size = min(max(size, probes[0]), probes[-1])
    for (left, low), (right, high) in pairwise(zip(probes, map(Fraction, values), strict=True)):
        if left <= size <= right:
            return low + (high - low) * Fraction(size - left, right - left)
    return Fraction(values[0])


def _next_size(probes: tuple[int, ...], values: tuple[float, ...], size: int) -> Fraction:
    """Return the longest time of the sizes up to the next captured one, which cases always have."""
    place = next(place for place, probe in enumerate(probes) if probe >= size)
    return Fraction(max(values[: place + 1]))


PROPERTIES = states(
    "scheduled",
    (admitted_drafts_keep_to_the_budget, strategies.limited_survivals, _SCHEDULE),
    (the_budget_is_spent, strategies.limited_survivals, _SCHEDULE),
    (free_rows_come_on_top, _SCHEDULE),
    (no_better_draft_is_left_out, strategies.tied_survivals, _SCHEDULE),
    (lengths_grow_with_the_budget, _SCHEDULE),
    (requests_are_scheduled_in_any_order, strategies.distinct_survivals, _SCHEDULE),
    (confidences_after_the_cut_are_not_read, strategies.tied_survivals, _SCHEDULE),
    (the_budget_yields_most_in_its_time, budgets.priced, "verify_token_budget"),
    (without_a_measured_cost_everything_is_verified, budgets.unpriced, "verify_token_budget"),
    (a_forced_share_is_rounded_down, budgets.forced, "verify_token_budget"),
    (ranks_run_the_graph_of_the_largest, budgets.tiers, ("verify_graph_tier", "agree_on_tier")),
    (an_aligned_budget_fills_its_graph, partial(budgets.tiers, has_budgets=True), "align_verify_budget"),
)
