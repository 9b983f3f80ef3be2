"""Faults in what is counted and in what is divided by what."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.host.metrics import BatchCounts, IntervalStats, Rates, RequestCounters, SpecCounters
from specsim.properties.mutants.record import Function, Mutant, Named, answering, mutants_of


def _rate_of(accept_rate: Callable[[int, int, int], float]) -> Callable[[Function], Function]:
    """Inject another accept rate; it takes drafts, verifies and drafts a round."""

    def answer(correct: Function, arguments: Named) -> Any:
        rates: Rates = correct(**arguments)
        if arguments["num_verifies"] == 0:
            return rates
        return replace(rates, accept_rate=accept_rate(*arguments.values()))

    return answering(answer)


def _length_of(tokens_per_verify: Callable[[int, int], float]) -> Callable[[Function], Function]:
    """Inject another length; it takes drafts and verifies."""

    def answer(correct: Function, arguments: Named) -> Any:
        rates: Rates = correct(**arguments)
        drafts, verifies, _ = arguments.values()
        return replace(rates, tokens_per_verify=tokens_per_verify(drafts, verifies)) if verifies else rates

    return answering(answer)


def _divides_by_no_verify(correct: Function, arguments: Named) -> Any:
    drafts, verifies, per_round = arguments.values()
    return Rates((drafts + verifies) / verifies, drafts / (verifies * per_round))


def _divides_by_no_proposal(correct: Function, arguments: Named) -> Any:
    drafts, verifies, per_round = arguments.values()
    rates: Rates = correct(**arguments)
    return replace(rates, accept_rate=drafts / (verifies * per_round)) if verifies else rates


def _counting(change: Callable[[SpecCounters, int, int], dict[str, int]]) -> Callable[[Function], Function]:
    """Inject another count of a batch; it takes the counters before, the requests and their accepted drafts."""

    def answer(correct: Function, arguments: Named) -> Any:
        return replace(correct(**arguments), **change(*arguments.values()))

    return answering(answer)


def _reporting(change: Callable[[IntervalStats, SpecCounters], dict[str, Any]]) -> Callable[[Function], Function]:
    """Inject another report; it takes the correct one and the counters after it."""

    def answer(correct: Function, arguments: Named) -> Any:
        counters, stats = correct(**arguments)
        return counters, stats and replace(stats, **change(stats, counters))

    return answering(answer)


def _after_a_report(change: Callable[[SpecCounters, SpecCounters], dict[str, int]]) -> Callable[[Function], Function]:
    """Inject other counters to go on with after a report; it takes those before and the correct ones after."""

    def answer(correct: Function, arguments: Named) -> Any:
        counters, stats = correct(**arguments)
        return (counters if stats is None else replace(counters, **change(arguments["counters"], counters))), stats

    return answering(answer)


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


def _zombies_verify_for_themselves(correct: Function, arguments: Named) -> Any:
    counts: BatchCounts = correct(**arguments)
    rows = zip(counts.requests, arguments["is_zombie"], strict=True)
    return replace(
        counts,
        requests=tuple(replace(one, num_verifies=one.num_verifies + zombie) for one, zombie in rows),
    )


def _counters_of_the_neighbour(correct: Function, arguments: Named) -> Any:
    drafts = arguments["num_accepted_drafts"]
    shifted: BatchCounts = correct(**{**arguments, "num_accepted_drafts": [*drafts[1:], *drafts[:1]]})
    return shifted


def _batch_counts_live_requests(correct: Function, arguments: Named) -> Any:
    counts: BatchCounts = correct(**arguments)
    rows = zip(arguments["num_accepted_drafts"], arguments["is_zombie"], strict=True)
    live = [drafts for drafts, zombie in rows if not zombie]
    return replace(counts, num_requests=len(live), num_accepted_drafts=sum(live))


def _one_verify_too_many_proposed(correct: Function, arguments: Named) -> Any:
    reported = correct(**arguments)
    if "spec_proposed_drafts" in reported:
        reported["spec_proposed_drafts"] += arguments["num_drafts_per_round"]
        reported["spec_accept_rate"] = reported["spec_accepted_drafts"] / reported["spec_proposed_drafts"]
    return reported


def _length_without_the_stop(correct: Function, arguments: Named) -> Any:
    reported, counters = correct(**arguments), arguments["counters"]
    if "spec_accept_length" in reported:
        reported["spec_accept_length"] = 1 + counters.num_accepted_drafts / counters.num_verifies
    return reported


def _histogram_with_the_rates_only(correct: Function, arguments: Named) -> Any:
    reported = correct(**arguments)
    return reported if "spec_accept_rate" in reported else {}


_RATES, _ROUND, _UPDATE, _REPORT = "interval_rates", "drafts_per_round", "update_spec_metrics", "report_decode_stats"
_VERIFY, _BATCH, _META = "count_verify", "count_batch", "meta_info"

MUTANTS = (
    Mutant(
        "M01",
        _RATES,
        "The bonus token counts as accepted and the root as proposed.",
        _rate_of(lambda drafts, verifies, per_round: (drafts + verifies) / (verifies * (per_round + 1))),
    ),
    Mutant(
        "M03",
        _RATES,
        "Tokens are divided by drafts, so that a rate exceeds 1.",
        _rate_of(lambda drafts, verifies, per_round: (drafts + verifies) / (verifies * per_round)),
    ),
    Mutant(
        "M02",
        _ROUND,
        "A tree proposes as many drafts as it has levels.",
        answering(lambda correct, arguments: correct(None, arguments["num_steps"])),
    ),
    Mutant(
        "M11",
        _REPORT,
        "A verify generates one token a request.",
        _reporting(lambda stats, after: {"num_generated_tokens": stats.num_verifies}),
    ),
    Mutant("M07", _META, "Proposed drafts are those of one verify more.", answering(_one_verify_too_many_proposed)),
    *mutants_of(
        _RATES,
        ("OWN-173", "An interval without a verify divides by zero.", answering(_divides_by_no_verify)),
        ("OWN-1505", "Verifies that propose nothing divide by zero.", answering(_divides_by_no_proposal)),
        ("OWN-174", "The length leaves the bonus token out.", _length_of(lambda drafts, verifies: drafts / verifies)),
    ),
    Mutant(
        "OWN-175",
        _UPDATE,
        "The interval's tokens lack the bonus: its verifies are not counted.",
        _counting(lambda before, requests, drafts: {"num_verifies": before.num_verifies}),
    ),
    Mutant(
        "OWN-176",
        _UPDATE,
        "The bonus tokens are counted among the drafts.",
        _counting(
            lambda before, requests, drafts: {"num_accepted_drafts": before.num_accepted_drafts + drafts + requests}
        ),
    ),
    Mutant(
        "OWN-177",
        _REPORT,
        "A report does not reset the counters.",
        _after_a_report(
            lambda before, after: {
                "num_accepted_drafts": before.num_accepted_drafts,
                "num_verifies": before.num_verifies,
            }
        ),
    ),
    Mutant(
        "OWN-178",
        _REPORT,
        "A report forgets the intervals before it.",
        _after_a_report(
            lambda before, after: {
                "total_accepted_drafts": before.num_accepted_drafts,
                "total_verifies": before.num_verifies,
            }
        ),
    ),
    Mutant(
        "OWN-380",
        _UPDATE,
        "Drafts and verifies change places.",
        _counting(
            lambda before, requests, drafts: {
                "num_accepted_drafts": before.num_accepted_drafts + requests,
                "num_verifies": before.num_verifies + drafts,
            }
        ),
    ),
    Mutant(
        "OWN-381",
        _RATES,
        "Drafts and verifies change places in the length.",
        _length_of(lambda drafts, verifies: (drafts + verifies) / max(drafts, 1)),
    ),
    Mutant(
        "OWN-382",
        _REPORT,
        "An interval reports the tokens of all intervals.",
        _reporting(lambda stats, after: {"num_generated_tokens": after.total_accepted_tokens}),
    ),
    Mutant(
        "OWN-383",
        _REPORT,
        "The totals add the verifies of an interval, and none of its drafts.",
        _after_a_report(lambda before, after: {"total_accepted_drafts": before.total_accepted_drafts}),
    ),
    Mutant("OWN-384", _BATCH, "A request counts its neighbour's drafts.", answering(_counters_of_the_neighbour)),
    Mutant("OWN-385", _BATCH, "A zombie's verifies go on, not its drafts.", answering(_zombies_verify_for_themselves)),
    Mutant("OWN-179", _REPORT, "A report comes one batch late.", answering(_reports_one_batch_late)),
    Mutant("OWN-180", _VERIFY, "The histogram is by tokens, not drafts.", answering(_histogram_of_tokens)),
    Mutant("OWN-181", _VERIFY, "More than two drafts count as two.", answering(_histogram_of_a_fixed_width)),
    Mutant("OWN-182", _BATCH, "A zombie's own counters go on.", answering(_zombies_count_for_themselves)),
    Mutant("OWN-183", _BATCH, "The batch leaves zombies out.", answering(_batch_counts_live_requests)),
    Mutant("OWN-184", _META, "The length ignores prefill and stop.", answering(_length_without_the_stop)),
    Mutant("OWN-185", _META, "No histogram where nothing was proposed.", answering(_histogram_with_the_rates_only)),
)
