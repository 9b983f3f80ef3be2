"""Faults in what is counted and in what is divided by what."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.host.metrics import BatchCounts, Rates, RequestCounters
from specsim.properties.mutants.record import Function, Mutant, Named, answering


def _rate_of(accept_rate: Callable[[int, int, int], float]) -> Callable[[Function], Function]:
    """Inject another accept rate; it takes tokens, verifies and drafts a round."""

    def answer(correct: Function, arguments: Named) -> Any:
        rates: Rates = correct(**arguments)
        if arguments["num_verifies"] == 0:
            return rates
        return replace(rates, accept_rate=accept_rate(*arguments.values()))

    return answering(answer)


def _length_of_drafts(correct: Function, arguments: Named) -> Any:
    rates: Rates = correct(**arguments)
    return replace(rates, tokens_per_verify=max(rates.tokens_per_verify - 1, 0.0))


def _divides_by_no_verify(correct: Function, arguments: Named) -> Any:
    tokens, verifies, per_round = arguments.values()
    return Rates(tokens / verifies, (tokens - verifies) / (verifies * per_round))


def _one_token_a_request(correct: Function, arguments: Named) -> Any:
    counters = correct(**arguments)
    return replace(counters, num_generated_tokens=counters.num_generated_tokens - arguments["num_accepted_drafts"])


def _tokens_without_the_bonus(correct: Function, arguments: Named) -> Any:
    counters = correct(**arguments)
    return replace(counters, num_accepted_tokens=counters.num_accepted_tokens - arguments["num_requests"])


def _realtime_counts_requests(correct: Function, arguments: Named) -> Any:
    counters = correct(**arguments)
    return replace(counters, realtime_tokens=counters.realtime_tokens - arguments["num_accepted_drafts"])


def _counters_go_on(correct: Function, arguments: Named) -> Any:
    counters, stats = correct(**arguments)
    before = arguments["counters"]
    if stats is None:
        return counters, stats
    kept = replace(counters, num_accepted_tokens=before.num_accepted_tokens, num_verifies=before.num_verifies)
    return kept, stats


def _realtime_is_reset(correct: Function, arguments: Named) -> Any:
    counters, stats = correct(**arguments)
    return (counters if stats is None else replace(counters, realtime_tokens=0)), stats


def _reports_one_batch_late(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "decode_log_interval": arguments["decode_log_interval"] + 1})


def _histogram_of_tokens(correct: Function, arguments: Named) -> Any:
    before: RequestCounters = arguments["counters"]
    after = correct(before, arguments["num_accepted_drafts"])
    shifted = correct(before, arguments["num_accepted_drafts"] + 1)
    return replace(after, histogram=shifted.histogram)


def _histogram_of_a_fixed_width(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "num_accepted_drafts": min(arguments["num_accepted_drafts"], 2)})


def _zombies_count_for_themselves(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "is_zombie": [False] * len(arguments["counters"])})


def _batch_counts_live_requests(correct: Function, arguments: Named) -> Any:
    counts: BatchCounts = correct(**arguments)
    rows = zip(arguments["num_accepted_drafts"], arguments["is_zombie"], strict=True)
    live = [drafts for drafts, zombie in rows if not zombie]
    return replace(counts, num_requests=len(live), num_accepted_drafts=sum(live))


def _one_verify_too_many_proposed(correct: Function, arguments: Named) -> Any:
    told = correct(**arguments)
    if "spec_proposed_drafts" in told:
        told["spec_proposed_drafts"] += arguments["num_drafts_per_round"]
        told["spec_accept_rate"] = told["spec_accepted_drafts"] / told["spec_proposed_drafts"]
    return told


def _length_without_the_stop(correct: Function, arguments: Named) -> Any:
    told, counters = correct(**arguments), arguments["counters"]
    if "spec_accept_length" in told:
        told["spec_accept_length"] = 1 + counters.num_accepted_drafts / counters.num_verifies
    return told


def _histogram_with_the_rates_only(correct: Function, arguments: Named) -> Any:
    told = correct(**arguments)
    return told if "spec_accept_rate" in told else {}


_RATES, _ROUND, _UPDATE, _REPORT = "interval_rates", "drafts_per_round", "update_spec_metrics", "report_decode_stats"
_VERIFY, _BATCH, _META = "count_verify", "count_batch", "meta_info"

MUTANTS = (
    Mutant(
        "M01",
        _RATES,
        "The bonus token counts as accepted and the root as proposed.",
        _rate_of(lambda tokens, verifies, per_round: tokens / (verifies * (per_round + 1))),
    ),
    Mutant(
        "M03",
        _RATES,
        "Tokens are divided by drafts, so that a rate exceeds 1.",
        _rate_of(lambda tokens, verifies, per_round: tokens / (verifies * per_round)),
    ),
    Mutant(
        "M02",
        _ROUND,
        "A tree proposes as many drafts as it has levels.",
        answering(lambda correct, arguments: correct(None, arguments["num_steps"])),
    ),
    Mutant("M11", _UPDATE, "A verify generates one token a request.", answering(_one_token_a_request)),
    Mutant("M07", _META, "Proposed drafts are those of one verify more.", answering(_one_verify_too_many_proposed)),
    Mutant("OWN-173", _RATES, "An interval without a verify divides by zero.", answering(_divides_by_no_verify)),
    Mutant("OWN-174", _RATES, "The length leaves the bonus token out.", answering(_length_of_drafts)),
    Mutant("OWN-175", _UPDATE, "The interval's tokens lack the bonus.", answering(_tokens_without_the_bonus)),
    Mutant("OWN-176", _UPDATE, "Realtime tokens count requests.", answering(_realtime_counts_requests)),
    Mutant("OWN-177", _REPORT, "A report does not reset the counters.", answering(_counters_go_on)),
    Mutant("OWN-178", _REPORT, "A report resets the realtime tokens too.", answering(_realtime_is_reset)),
    Mutant("OWN-179", _REPORT, "A report comes one batch late.", answering(_reports_one_batch_late)),
    Mutant("OWN-180", _VERIFY, "The histogram is by tokens, not drafts.", answering(_histogram_of_tokens)),
    Mutant("OWN-181", _VERIFY, "More than two drafts count as two.", answering(_histogram_of_a_fixed_width)),
    Mutant("OWN-182", _BATCH, "A zombie's own counters go on.", answering(_zombies_count_for_themselves)),
    Mutant("OWN-183", _BATCH, "The batch leaves zombies out.", answering(_batch_counts_live_requests)),
    Mutant("OWN-184", _META, "The length ignores prefill and stop.", answering(_length_without_the_stop)),
    Mutant("OWN-185", _META, "No histogram where nothing was proposed.", answering(_histogram_with_the_rates_only)),
)
