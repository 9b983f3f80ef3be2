"""Counters and rates against the worked numbers of K.10, K.3 and I.3, and their identities after random runs."""

import pytest
from hypothesis import HealthCheck, given, settings

from specsim.conformance.backend import load
from specsim.host.metrics import (
    Rates,
    RequestCounters,
    SpecCounters,
    count_batch,
    count_verify,
    drafts_per_round,
    interval_rates,
    meta_info,
    report_decode_stats,
    update_spec_metrics,
)
from specsim.properties.runs.histories import scenarios
from specsim.properties.runs.play import drive, own_worker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine

K10 = [
    (8, 4, 0, 0.0, 1.0),
    (8, 4, 8, 0.3333, 2.0),
    (8, 4, 12, 0.5, 2.5),
    (8, 4, 24, 1.0, 4.0),
    (4, 6, 10, 0.5, 3.5),
]


@pytest.mark.parametrize(("num_requests", "num_draft_tokens", "num_drafts", "rate", "length"), K10)
def test_rates_of_one_batch(num_requests, num_draft_tokens, num_drafts, rate, length):
    counters = update_spec_metrics(SpecCounters(), num_requests, num_drafts)
    after, stats = report_decode_stats(counters, drafts_per_round(num_draft_tokens, None), 1)
    assert stats.rates == Rates(length, pytest.approx(rate, abs=5e-5))
    assert stats.num_generated_tokens == num_requests + num_drafts
    assert after == SpecCounters(
        total_accepted_drafts=num_drafts,
        total_verifies=num_requests,
    )
    assert after.total_accepted_tokens == after.realtime_tokens == num_requests + num_drafts


def test_an_interval_without_a_verify_is_zero():
    after, stats = report_decode_stats(update_spec_metrics(SpecCounters(), 0, 0), 3, 1)
    assert stats.rates == Rates(0.0, 0.0)
    assert after == SpecCounters()


def test_a_report_comes_when_the_interval_is_full():
    counters, stats = report_decode_stats(update_spec_metrics(SpecCounters(), 2, 3), 3, 2)
    assert stats is None
    counters, stats = report_decode_stats(update_spec_metrics(counters, 2, 1), 3, 2)
    assert stats.public() == {
        "num_batches": 2,
        "spec_verify_ct": 4,
        "spec_accepted_drafts": 4,
        "num_generated_tokens": 8,
        "spec_accept_length": 2.0,
        "spec_accept_rate": 4 / 12,
    }


@pytest.mark.parametrize(
    ("num_draft_tokens", "num_steps", "expected"), [(6, 3, 5), (4, None, 3), (None, 3, 3), (None, None, 0)]
)
def test_drafts_of_a_round(num_draft_tokens, num_steps, expected):
    assert drafts_per_round(num_draft_tokens, num_steps) == expected


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: interval_rates(-1, 4, 3), "num_accepted_drafts"),
        (lambda: interval_rates(1, 0, 3), "num_accepted_drafts"),
        (lambda: interval_rates(0, -1, 3), "num_verifies"),
        (lambda: interval_rates(4, 4, -1), "num_drafts_per_round"),
        (lambda: update_spec_metrics(SpecCounters(), -1, 0), "num_requests"),
        (lambda: update_spec_metrics(SpecCounters(), 1, -1), "num_accepted_drafts"),
        (lambda: update_spec_metrics(SpecCounters(), 0, 2), "num_accepted_drafts"),
        (lambda: report_decode_stats(SpecCounters(), 3, 0), "decode_log_interval"),
        (lambda: count_verify(RequestCounters(), -1), "num_accepted_drafts"),
    ],
)
def test_impossible_counts_are_refused(call, what):
    with pytest.raises(SpecRejection) as caught:
        call()
    assert (caught.value.reason, caught.value.what) == (Reason.COUNT_OUT_OF_RANGE, what)


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(SpecRejection) as caught:
        count_batch([RequestCounters()], [1, 2], [False])
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_the_batch_counts_zombies_and_their_requests_do_not():
    counters = [RequestCounters(), RequestCounters(1, 3, (0, 0, 0, 1))]
    counts = count_batch(counters, [2, 1], [False, True])
    assert (counts.num_requests, counts.num_accepted_drafts) == (2, 3)
    assert counts.requests == (RequestCounters(1, 2, (0, 0, 1)), RequestCounters(1, 3, (0, 0, 0, 1)))


def test_k3_with_a_stop_counts_twice():
    """42 ends request 1 inside its run: the batch counts 2 + 1 drafts, the requests 2 and 3."""
    batch = update_spec_metrics(SpecCounters(), 2, 2 + 1)
    assert batch.num_accepted_tokens == 5
    assert [count_verify(RequestCounters(), drafts).num_accepted_drafts for drafts in (2, 3)] == [2, 3]


def test_meta_info_of_a_request_that_stopped_inside_a_run():
    counters = count_verify(count_verify(RequestCounters(), 3), 1)
    assert meta_info(counters, 5, 5) == {
        "spec_accept_rate": 0.4,
        "spec_accept_length": 2.5,
        "spec_accepted_drafts": 4,
        "spec_proposed_drafts": 10,
        "spec_verify_ct": 2,
        "spec_correct_drafts_histogram": [0, 1, 0, 1],
        "spec_accept_histogram": [0, 1, 0, 1],
    }


def test_meta_info_is_empty_without_a_verify_and_a_histogram_without_drafts():
    assert meta_info(RequestCounters(), 1, 5) == {}
    reported = meta_info(RequestCounters(2, 0, (2,)), 3, 0)
    assert reported == {"spec_correct_drafts_histogram": [2], "spec_accept_histogram": [2]}


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_identities_hold_after_a_run(scenario):
    """Intervals partition the run; requests, histograms and intervals count the same verifies and drafts."""
    engine = Engine(own_worker(load("specsim.reference"), scenario), scenario.room.max_batch, decode_log_interval=3)
    log = []
    for (iteration,) in drive([engine], scenario):
        if iteration is not None:
            log.append(iteration.num_accepted_drafts.tolist())
    engine.run()
    requests = [request.counters for request in engine.scheduler.finished]
    num_verifies, num_drafts = sum(map(len, log)), sum(map(sum, log))
    assert sum(one.num_verifies for one in requests) == num_verifies
    assert sum(one.num_accepted_drafts for one in requests) == num_drafts
    assert sum(stats.num_batches for stats in engine.intervals) == len(log)
    assert sum(stats.num_verifies for stats in engine.intervals) == num_verifies
    assert sum(stats.num_accepted_drafts for stats in engine.intervals) == num_drafts
    assert engine.counters.realtime_tokens == engine.counters.total_accepted_tokens == num_drafts + num_verifies
    most = scenario.config.num_steps / (scenario.config.num_draft_tokens - 1)
    for stats in engine.intervals:
        assert 0 <= stats.rates.accept_rate <= most
        assert 1 <= stats.rates.tokens_per_verify <= scenario.config.num_steps + 1
    for one in requests:
        assert sum(one.histogram) == one.num_verifies
        assert sum(drafts * count for drafts, count in enumerate(one.histogram)) == one.num_accepted_drafts
