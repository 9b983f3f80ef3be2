"""Laws of the figures: every one can be counted from the log of what was accepted."""

from fractions import Fraction

from specsim.conformance.backend import Backend
from specsim.host.metrics import RequestCounters, SpecCounters
from specsim.properties.host.metrics import strategy as strategies
from specsim.properties.laws.checks import for_each, require, require_equal, states

Batches = tuple[tuple[strategies.Row, ...], ...]


def intervals_are_those_of_the_log(backend: Backend, history: strategies.History) -> None:
    """Reports come when they are due and count each batch once; what never resets counts all of them.

    NOTE: the tokens are added up here by hand, drafts and one a row, and not by ``specsim.counts``.
    """
    update, report = backend.host("update_spec_metrics"), backend.host("report_decode_stats")
    counters = SpecCounters()
    first = 0
    for number, batch in enumerate(history.batches):
        counters = update(counters, len(batch), sum(row.num_accepted_drafts for row in batch))
        _require_counted("before the report", counters, history.batches[first : number + 1], history.batches[:first])
        counters, stats = report(counters, history.num_drafts_per_round, history.decode_log_interval)
        is_due = number + 1 - first == history.decode_log_interval
        require((stats is not None) == is_due, f"report after batch {number}", stats, "due" if is_due else "not due")
        if stats is not None:
            rows = [row for one in history.batches[first : number + 1] for row in one]
            drafts = sum(row.num_accepted_drafts for row in rows)
            require_equal("num_batches", stats.num_batches, history.decode_log_interval)
            require_equal("num_verifies", stats.num_verifies, len(rows))
            require_equal("num_accepted_drafts", stats.num_accepted_drafts, drafts)
            require_equal("num_generated_tokens", stats.num_generated_tokens, drafts + len(rows))
            require_equal("tokens_per_verify", stats.rates.tokens_per_verify, _ratio(drafts + len(rows), len(rows)))
            proposed = len(rows) * history.num_drafts_per_round
            require_equal("accept_rate", stats.rates.accept_rate, _ratio(drafts, proposed))
            first = number + 1
        _require_counted("after the report", counters, history.batches[first : number + 1], history.batches[:first])


def rates_have_their_bounds(backend: Backend, case: tuple[tuple[int, ...], int, int]) -> None:
    """A length lies between 1 and S+1, a rate between 0 and S/(N-1); an interval without a verify gives 0 and 0."""
    drafts, num_steps, num_drafts_per_round = case
    count = len(drafts)
    rates = backend.host("interval_rates")(sum(drafts), count, num_drafts_per_round)
    require_equal("tokens_per_verify", rates.tokens_per_verify, _ratio(sum(drafts) + count, count))
    require_equal("accept_rate", rates.accept_rate, _ratio(sum(drafts), count * num_drafts_per_round))
    if drafts:
        require(1 <= rates.tokens_per_verify <= num_steps + 1, "tokens_per_verify", rates, f"1 to {num_steps + 1}")
        most = _ratio(num_steps, num_drafts_per_round)
        require(0 <= rates.accept_rate <= most, "accept_rate", rates.accept_rate, f"0 to {most}")
        require((rates.accept_rate == 0) == (not any(drafts)), "accept_rate", rates.accept_rate, "0 with none")
        require((rates.accept_rate == most) == (min(drafts) == num_steps), "accept_rate", rates, f"{most} with all")


def a_round_proposes_all_nodes_but_the_root(backend: Backend, case: tuple[int | None, int | None]) -> None:
    """A tree proposes N-1 drafts, whatever its depth; without a tree size a chain proposes S, and nothing 0."""
    nodes, steps = case
    expected = nodes - 1 if nodes is not None else steps or 0
    require_equal("drafts_per_round", backend.host("drafts_per_round")(nodes, steps), expected)


def histogram_adds_up(backend: Backend, log: strategies.RequestLog) -> None:
    """The histogram has one entry a verify; weighted by their index the entries add up to the accepted drafts."""
    count_verify = backend.host("count_verify")
    counters = RequestCounters()
    for drafts in log.num_accepted_drafts:
        counters = count_verify(counters, drafts)
    accepted = log.num_accepted_drafts
    require_equal("num_verifies", counters.num_verifies, len(accepted))
    require_equal("num_accepted_drafts", counters.num_accepted_drafts, sum(accepted))
    require_equal("sum of the histogram", sum(counters.histogram), counters.num_verifies)
    weighted = sum(drafts * count for drafts, count in enumerate(counters.histogram))
    require_equal("weighted sum of the histogram", weighted, counters.num_accepted_drafts)
    expected = [accepted.count(drafts) for drafts in range(max(accepted, default=-1) + 1)]
    require_equal("histogram", counters.histogram, expected)


def zombies_count_for_the_batch_alone(backend: Backend, history: strategies.History) -> None:
    """A batch counts all its rows; a request counts its rows until it ends."""
    count_batch = backend.host("count_batch")
    counters = [RequestCounters() for _ in range(history.num_requests)]
    for batch in history.batches:
        drafts = [row.num_accepted_drafts for row in batch]
        before = [counters[row.request] for row in batch]
        counts = count_batch(before, drafts, [row.is_zombie for row in batch])
        require_equal("num_requests", counts.num_requests, len(batch))
        require_equal("num_accepted_drafts", counts.num_accepted_drafts, sum(drafts))
        for row, after in zip(batch, counts.requests, strict=True):
            counters[row.request] = after
    rows = [row for batch in history.batches for row in batch if not row.is_zombie]
    for request, counted in enumerate(counters):
        live = [row.num_accepted_drafts for row in rows if row.request == request]
        require_equal(f"num_verifies of request {request}", counted.num_verifies, len(live))
        require_equal(f"num_accepted_drafts of request {request}", counted.num_accepted_drafts, sum(live))
        require_equal(f"histogram of request {request}", sum(counted.histogram), len(live))


def meta_info_is_counted_from_the_log(backend: Backend, log: strategies.RequestLog) -> None:
    """Every key says what the log says; keys are there only where they mean something."""
    accepted, per_round = log.num_accepted_drafts, log.num_drafts_per_round
    histogram = tuple(accepted.count(drafts) for drafts in range(max(accepted, default=-1) + 1))
    counters = RequestCounters(len(accepted), sum(accepted), histogram)
    got = backend.host("meta_info")(counters, log.num_completion_tokens, per_round)
    expected: dict[str, object] = {}
    if accepted:
        expected["spec_correct_drafts_histogram"] = expected["spec_accept_histogram"] = list(histogram)
    if accepted and per_round:
        expected["spec_accept_rate"] = _ratio(sum(accepted), len(accepted) * per_round)
        expected["spec_accept_length"] = _ratio(log.num_completion_tokens, len(accepted))
        expected["spec_accepted_drafts"] = sum(accepted)
        expected["spec_proposed_drafts"] = len(accepted) * per_round
        expected["spec_verify_ct"] = len(accepted)
    require(got.keys() == expected.keys(), "keys", sorted(got), sorted(expected))
    for key, value in expected.items():
        require(got[key] == value, key, got[key], value)


def _require_counted(when: str, counters: SpecCounters, opened: Batches, reported: Batches) -> None:
    """Raise AssertionError unless drafts, verifies and tokens are those of the open interval, and of all before it."""
    for name, batches in (("num", opened), ("total", reported)):
        accepted = [row.num_accepted_drafts for batch in batches for row in batch]
        for figure, got, expected in (
            ("accepted_drafts", getattr(counters, f"{name}_accepted_drafts"), sum(accepted)),
            ("verifies", getattr(counters, f"{name}_verifies"), len(accepted)),
            ("accepted_tokens", getattr(counters, f"{name}_accepted_tokens"), sum(accepted) + len(accepted)),
        ):
            require_equal(f"{name}_{figure} {when}", got, expected)
    everything = [row.num_accepted_drafts for batch in (*reported, *opened) for row in batch]
    require_equal(f"realtime_tokens {when}", counters.realtime_tokens, sum(everything) + len(everything))


def _ratio(part: int, whole: int) -> float:
    return float(Fraction(part, whole)) if whole else 0.0


PROPERTIES = states(
    "metrics",
    (intervals_are_those_of_the_log, strategies.histories, ("update_spec_metrics", "report_decode_stats"), "P26"),
    (rates_have_their_bounds, strategies.counted_intervals, ("interval_rates",), "P26"),
    (a_round_proposes_all_nodes_but_the_root, strategies.draft_sizes, ("drafts_per_round",), "P26"),
    (for_each(histogram_adds_up), strategies.several_logs, ("count_verify",), "P26"),
    (zombies_count_for_the_batch_alone, strategies.histories, ("count_batch",), "P26"),
    (for_each(meta_info_is_counted_from_the_log), strategies.several_logs, ("meta_info",), "P26"),
)
