"""Faults of scheduled verification: who is admitted, which budget is taken, and which graph runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.host.budget import ForcedShare, StepRates
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, answering, given, mutants_of, with_arguments


def _ranked(key: str) -> Callable[[Function], Function]:
    """Inject another order of the drafts, each less its survival, its position and its request."""
    return edited("sorted(candidates)", f"sorted(candidates, key=lambda one: {key})")


def _unpriced(budget: Callable[[Named], int]) -> Callable[[Function], Function]:
    """Inject another budget where costs were never measured."""

    def answer(correct: Function, arguments: Named) -> Any:
        costs = arguments["costs"]
        is_known = costs is not None and not (isinstance(costs, StepRates) and len(costs.probes) == 1)
        return correct(**arguments) if is_known else budget(arguments)

    return answering(answer)


def _best(shift: int = 0, takes_last: bool = False, counts_roots: bool = True) -> Callable[[Function], Function]:
    """Inject a search that reads the cost of other rows, takes the last of equals, or counts drafts alone."""

    def answer(correct: Function, arguments: Named) -> Any:
        costs, requests = arguments["costs"], arguments["num_requests"]
        if costs is None or isinstance(costs, ForcedShare) or (isinstance(costs, StepRates) and len(costs.probes) == 1):
            return correct(**arguments)
        kept = sorted((one for one in arguments["survivals"] if one >= arguments["survival_eps"]), reverse=True)
        kept = kept[: arguments["max_budget"]]
        rows = requests if arguments["num_rows"] is None else arguments["num_rows"]
        base = requests if counts_roots else 0
        yields = [
            costs.yields(base + sum(kept[:count]), requests, rows + shift + count) for count in range(len(kept) + 1)
        ]
        best = max(yields)
        return len(yields) - 1 - yields[::-1].index(best) if takes_last else yields.index(best)

    return answering(answer)


def _share_rounded_up(correct: Function, arguments: Named) -> Any:
    costs, most = arguments["costs"], arguments["max_budget"]
    if not isinstance(costs, ForcedShare):
        return correct(**arguments)
    budget = -int(-costs.share * arguments["num_requests"] * costs.num_drafts // 1)
    return budget if most is None else min(budget, most)


def _share_counts_roots(arguments: Named) -> None:
    if isinstance(arguments["costs"], ForcedShare):
        arguments["costs"] = replace(arguments["costs"], num_drafts=arguments["costs"].num_drafts + 1)


def _tier_beyond_chains(correct: Function, arguments: Named) -> Any:
    if arguments["budget"] is None:
        return correct(**arguments)
    return arguments["num_requests"] * max(arguments["min_verify_len"], 1) + arguments["budget"]


def _absent_budget_is_none(arguments: Named) -> None:
    arguments["budget"] = arguments["budget"] or 0


def _no_free_rows(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "min_verify_len": 1})


def _agreed_in_spite(correct: Function, arguments: Named) -> Any:
    return max(max(arguments["tiers"], default=0), 0)


def _agreed_on_the_least(correct: Function, arguments: Named) -> Any:
    tiers = arguments["tiers"]
    return correct(**arguments) if min(tiers, default=0) < 0 else min(tiers, default=0)


def _beyond_chains(correct: Function, arguments: Named) -> Any:
    free = arguments["num_requests"] * max(arguments["min_verify_len"], 1)
    needed = min(free + arguments["budget"], arguments["num_requests"] * arguments["num_draft_tokens"])
    sizes = [size for size in arguments["captured"] if size >= needed]
    return max(arguments["budget"], sizes[0] - free) if sizes else arguments["budget"]


def _rows_for_drafts(correct: Function, arguments: Named) -> Any:
    free = arguments["num_requests"] * max(arguments["min_verify_len"], 1)
    got = correct(**arguments)
    return got + free if got > arguments["budget"] else got


_BUDGET, _LONGEST = 'axes["verify_token_budget"]', 'axes["max_verify_len"]'
_OWN_CONFIDENCE = "confidence[request, draft]"

MUTANTS = (
    *mutants_of(
        "schedule_verify_lens",
        (
            "OWN-4009",
            "Without a least length the root of a request is not verified.",
            edited("max(least + num_admitted[request], least, 1)", "least + num_admitted[request]"),
        ),
        ("OWN-4018", "Drafts are admitted request after request.", _ranked("(one[2], one[1])")),
        (
            "OWN-4019",
            "A draft is cut by the confidence of the next one.",
            edited(_OWN_CONFIDENCE, "[*confidence[request, 1:], np.float32(1)][draft]"),
        ),
        ("OWN-4020", "Equal survivals go by request first.", _ranked("(one[0], one[2], one[1])")),
        ("OWN-4021", "Equal survivals go by the deepest first.", _ranked("(one[0], -one[1], one[2])")),
        ("OWN-4022", "Of equal survivals the last request's comes first.", _ranked("(one[0], one[1], -one[2])")),
        (
            "OWN-4023",
            "Drafts are ranked by their own confidence, not by survival.",
            _ranked("(-float(confidence[one[2], one[1]]), one[1], one[2])"),
        ),
        (
            "OWN-4024",
            "Survivals are multiplied in float64.",
            edited(f"np.float32(survival * {_OWN_CONFIDENCE})", f"survival * np.float64({_OWN_CONFIDENCE})"),
        ),
        ("OWN-4025", "The budget pays for roots.", edited(_BUDGET, f"max({_BUDGET} - len(confidence), 0)")),
        (
            "OWN-4026",
            "Every request has an equal share of the budget.",
            edited("min(most, longest)", f"min(most, longest, {_BUDGET} // len(confidence))"),
        ),
        (
            "OWN-4027",
            "Drafts that hardly survive are admitted.",
            with_arguments(survival_eps=np.zeros(1, dtype=np.float32)),
        ),
        ("OWN-4028", "A draft of just the least survival is left out.", edited("survival >= eps", "survival > eps")),
        ("OWN-4029", "Drafts that do not exist are admitted.", with_arguments(num_drafts=None)),
        (
            "OWN-4030",
            "Free rows are the first drafts that are admitted.",
            edited("least + num_admitted[request]", "1 + num_admitted[request]"),
        ),
        (
            "OWN-4031",
            "A request is one row longer than the longest.",
            edited(_LONGEST, f"min({_LONGEST}, confidence.shape[1]) + 1"),
        ),
    ),
    *mutants_of(
        "verify_token_budget",
        ("OWN-4060", "The last of the best budgets is taken.", _best(takes_last=True)),
        ("OWN-4061", "Costs are those of the drafts without one row.", _best(shift=-1)),
        ("OWN-4062", "Tokens are the accepted drafts alone.", _best(counts_roots=False)),
        ("OWN-4063", "Survivals are taken as they come.", with_arguments(survivals=lambda survivals: survivals[:1])),
        ("OWN-4064", "Drafts that hardly survive count.", with_arguments(survival_eps=0.0)),
        ("OWN-4065", "Rows that are no drafts are the roots alone.", with_arguments(num_rows=None)),
        ("OWN-4066", "The room of the forward is not looked at.", with_arguments(max_budget=None)),
        ("OWN-4067", "Without measured costs nothing is verified.", _unpriced(lambda arguments: 0)),
        (
            "OWN-4068",
            "Without measured costs all drafts are verified, those that hardly survive too.",
            _unpriced(lambda arguments: len(arguments["survivals"][: arguments["max_budget"]])),
        ),
        ("OWN-4069", "A forced share is rounded up.", answering(_share_rounded_up)),
        ("OWN-4070", "A forced share is one of the rows.", given(_share_counts_roots)),
    ),
    *mutants_of(
        "verify_graph_tier",
        ("OWN-4075", "A graph is asked for that has more rows than all chains.", answering(_tier_beyond_chains)),
        ("OWN-4076", "A batch without a budget verifies roots alone.", given(_absent_budget_is_none)),
        ("OWN-4077", "Free rows after the root are not counted.", answering(_no_free_rows)),
    ),
    *mutants_of(
        "agree_on_tier",
        ("OWN-4080", "A rank without a budget runs the graph of the others.", answering(_agreed_in_spite)),
        ("OWN-4081", "Ranks agree on the smallest graph.", answering(_agreed_on_the_least)),
    ),
    *mutants_of(
        "align_verify_budget",
        ("OWN-4085", "A budget is raised beyond whole chains.", answering(_beyond_chains)),
        ("OWN-4086", "A budget is raised to rows, not to drafts.", answering(_rows_for_drafts)),
        ("OWN-4087", "A budget is not raised.", answering(lambda correct, arguments: arguments["budget"])),
    ),
)
