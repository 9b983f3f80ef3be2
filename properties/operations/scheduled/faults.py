"""Faults of scheduled verification: who is admitted, which budget is taken, and which graph runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.budget import ForcedShare, StepRates
from specsim.properties.mutants.record import Function, Named, answering, given, instead, mutants_of, with_arguments

Candidate = tuple[float, int, int]


def _candidates(arguments: Named, dtype: type = np.float32) -> list[Candidate]:
    """Return (survival, position, request) of the drafts that may be admitted."""
    confidence, eps = arguments["confidence"], arguments["survival_eps"]
    least = np.float32(1e-6) if eps is None else eps[0]
    survivals: Array = np.cumprod(confidence.astype(dtype), axis=1, dtype=dtype)
    most = min(confidence.shape[1], arguments["max_verify_len"])
    counts = arguments["num_drafts"]
    return [
        (float(survivals[request, draft]), draft, request)
        for request in range(len(confidence))
        for draft in range(most if counts is None else min(most, int(counts[request])))
        if survivals[request, draft] >= least
    ]


def _lens(arguments: Named, admitted: list[Candidate]) -> Array:
    counts = np.bincount([request for *_, request in admitted], minlength=len(arguments["confidence"]))
    least, most = arguments["min_verify_len"], arguments["max_verify_len"]
    lens: Array = np.clip(least + counts, max(least, 1), most).astype(np.int32)
    return lens


def _ranking(key: Callable[[Named, Candidate], Any], dtype: type = np.float32) -> Callable[[Function], Function]:
    """Inject another order of the drafts."""

    def schedule(**arguments: Any) -> Array:
        ranked = sorted(_candidates(arguments, dtype), key=lambda one: key(arguments, one))
        return _lens(arguments, ranked[: arguments["verify_token_budget"]])

    return instead(schedule)


def _by_confidence(arguments: Named, one: Candidate) -> Any:
    return -float(arguments["confidence"][one[2], one[1]]), one[1], one[2]


def _last_request_first(arguments: Named, one: Candidate) -> Any:
    del arguments
    return -one[0], one[1], -one[2]


def _confidence_of_the_next(arguments: Named) -> None:
    shifted = np.ones_like(arguments["confidence"])
    shifted[:, :-1] = arguments["confidence"][:, 1:]
    arguments["confidence"] = shifted


def _roots_are_paid(arguments: Named) -> None:
    arguments["verify_token_budget"] = max(arguments["verify_token_budget"] - len(arguments["confidence"]), 0)


def _equal_shares(**arguments: Any) -> Array:
    share = arguments["verify_token_budget"] // max(len(arguments["confidence"]), 1)
    return _lens(arguments, [one for one in _candidates(arguments) if one[1] < share])


def _no_least_survival(arguments: Named) -> None:
    arguments["survival_eps"] = np.zeros(1, dtype=np.float32)


def _above_the_least(arguments: Named) -> None:
    eps = np.float32(1e-6) if arguments["survival_eps"] is None else arguments["survival_eps"][0]
    arguments["survival_eps"] = np.nextafter(np.array([eps], dtype=np.float32), np.float32(4))


def _free_rows_are_drafts(correct: Function, arguments: Named) -> Any:
    """Rows that cost nothing are taken for drafts that are admitted already."""
    free = max(arguments["min_verify_len"], 1)
    lens = correct(**{**arguments, "min_verify_len": 1})
    return np.maximum(lens, min(free, arguments["max_verify_len"])).astype(np.int32)


def _root_is_not_verified(correct: Function, arguments: Named) -> Any:
    if arguments["min_verify_len"] > 0:
        return correct(**arguments)
    lens = correct(**{**arguments, "min_verify_len": 1, "max_verify_len": arguments["confidence"].shape[1] + 1})
    return np.minimum(lens - 1, arguments["max_verify_len"]).astype(np.int32)


def _one_too_long(correct: Function, arguments: Named) -> Any:
    most = min(arguments["max_verify_len"] + 1, arguments["confidence"].shape[1] + 1)
    return correct(**{**arguments, "max_verify_len": most})


def _survivals(change: Callable[[Named], Any]) -> Callable[[Function], Function]:
    return given(lambda arguments: arguments.update(survivals=change(arguments)))


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


MUTANTS = (
    *mutants_of(
        "schedule_verify_lens",
        ("OWN-4009", "Without a least length the root of a request is not verified.", answering(_root_is_not_verified)),
        ("OWN-4018", "Drafts are admitted request after request.", _ranking(lambda _, one: (one[2], one[1]))),
        ("OWN-4019", "A draft is cut by the confidence of the next one.", given(_confidence_of_the_next)),
        ("OWN-4020", "Equal survivals go by request first.", _ranking(lambda _, one: (-one[0], one[2], one[1]))),
        ("OWN-4021", "Equal survivals go by the deepest first.", _ranking(lambda _, one: (-one[0], -one[1], one[2]))),
        (
            "OWN-4022",
            "Of equal survivals the last request's comes first.",
            _ranking(_last_request_first),
        ),
        ("OWN-4023", "Drafts are ranked by their own confidence, not by survival.", _ranking(_by_confidence)),
        ("OWN-4024", "Survivals are multiplied in float64.", _ranking(lambda _, one: (-one[0], *one[1:]), np.float64)),
        ("OWN-4025", "The budget pays for roots.", given(_roots_are_paid)),
        ("OWN-4026", "Every request has an equal share of the budget.", instead(_equal_shares)),
        ("OWN-4027", "Drafts that hardly survive are admitted.", given(_no_least_survival)),
        ("OWN-4028", "A draft of just the least survival is left out.", given(_above_the_least)),
        ("OWN-4029", "Drafts that do not exist are admitted.", with_arguments(num_drafts=None)),
        ("OWN-4030", "Free rows are the first drafts that are admitted.", answering(_free_rows_are_drafts)),
        ("OWN-4031", "A request is one row longer than the longest.", answering(_one_too_long)),
    ),
    *mutants_of(
        "verify_token_budget",
        ("OWN-4060", "The last of the best budgets is taken.", _best(takes_last=True)),
        ("OWN-4061", "Costs are those of the drafts without one row.", _best(shift=-1)),
        ("OWN-4062", "Tokens are the accepted drafts alone.", _best(counts_roots=False)),
        ("OWN-4063", "Survivals are taken as they come.", _survivals(lambda arguments: arguments["survivals"][:1])),
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
