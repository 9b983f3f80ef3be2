"""What a scraper sees, parsed by the parser of ``prometheus_client``."""

import socket
import urllib.request

import pytest
from hypothesis import given, settings
from prometheus_client.parser import text_string_to_metric_families

from specsim.host.exposition import SpecCollector, served, write_textfile
from specsim.host.metrics import Rates, SpecCounters, report_decode_stats, update_spec_metrics
from specsim.host.positions import PositionCounters, count_positions
from specsim.properties.host.metrics.strategy import histories

LABELS = {"model_name": "text", "engine_type": "unified"}


def samples(text):
    """Return {sample name: value} and {family name: type}; every sample has the labels."""
    families = list(text_string_to_metric_families(text))
    found = [sample for family in families for sample in family.samples]
    places = [sample.labels.pop("position", None) for sample in found]
    assert all(sample.labels == LABELS for sample in found)
    pairs = zip(found, places, strict=True)
    values = {one.name if place is None else (one.name, int(place)): one.value for one, place in pairs}
    return values, {family.name: family.type for family in families}


def scrape(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        return response.read().decode()


class Shown:
    """Stands for one collector after another, so that one server shows them all."""

    collector = SpecCollector(1, 2, LABELS)

    def collect(self):
        return self.collector.collect()


@pytest.fixture(scope="module")
def page():
    shown = Shown()
    with served(shown, 0) as url:
        yield shown, url


@settings(max_examples=20, deadline=None)
@given(history=histories())
def test_a_scrape_shows_the_last_report_and_all_verifies(page, history):
    shown, url = page
    shown.collector = collector = SpecCollector(history.num_steps, history.num_draft_tokens, LABELS)
    counters, last = SpecCounters(), Rates(0.0, 0.0)
    positions = shown_positions = PositionCounters()
    for batch in history.batches:
        accepted = [row.num_accepted_drafts for row in batch]
        widths = [[history.num_drafts_per_round] * len(batch), [history.num_steps] * len(batch)]
        positions = count_positions(positions, *widths, accepted)
        counters = update_spec_metrics(counters, len(batch), sum(row.num_accepted_drafts for row in batch))
        counters, stats = report_decode_stats(counters, history.num_drafts_per_round, history.decode_log_interval)
        if stats is not None:
            last = stats.rates
            collector.show(last, counters.total_verifies, positions)
            shown_positions = positions
    values, types = samples(scrape(url))
    assert values == {
        "sglang:spec_accept_length": last.tokens_per_verify,
        "sglang:spec_accept_rate": last.accept_rate,
        "sglang:spec_verify_calls_total": counters.total_verifies,
        "sglang:spec_num_steps": history.num_steps,
        "sglang:spec_num_draft_tokens": history.num_draft_tokens,
        "vllm:spec_decode_num_drafts_total": shown_positions.num_proposing,
        "vllm:spec_decode_num_draft_tokens_total": shown_positions.num_proposed_drafts,
        "vllm:spec_decode_num_accepted_tokens_total": shown_positions.num_accepted_drafts,
        **{
            ("vllm:spec_decode_num_accepted_tokens_per_pos_total", place): count
            for place, count in enumerate(shown_positions.accepted or (0,) * history.num_steps)
        },
    }
    assert types.pop("sglang:spec_verify_calls") == "counter"
    counted = [types.pop(name) for name in list(types) if name.startswith("vllm:")]
    assert counted == ["counter"] * 4
    assert set(types.values()) == {"gauge"}


def test_the_server_listens_on_the_loopback_address_and_ends_with_the_block():
    with served(SpecCollector(3, 4), 0) as url:
        assert url.startswith("http://127.0.0.1:")
        port = int(url.rsplit(":", 1)[1].partition("/")[0])
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_a_taken_port_is_an_error():
    with (
        served(SpecCollector(3, 4), 0) as url,
        pytest.raises(OSError, match="in use"),
        served(SpecCollector(3, 4), int(url.rsplit(":", 1)[1].partition("/")[0])),
    ):
        pass


def test_a_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "specsim.prom"
    collector = SpecCollector(3, 4, LABELS)
    for rates, num_verifies in ((Rates(1.5, 0.25), 2), (Rates(2.0, 0.5), 6)):
        collector.show(rates, num_verifies, PositionCounters())
        write_textfile(collector, path)
        values, _ = samples(path.read_text())
        assert values["sglang:spec_accept_length"] == rates.tokens_per_verify
        assert values["sglang:spec_verify_calls_total"] == num_verifies
    assert [entry.name for entry in tmp_path.iterdir()] == ["specsim.prom"]
