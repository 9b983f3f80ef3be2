"""``specsim simulate`` shows its metrics over HTTP and in a file, and compares how outputs end."""

import json
import re
import socket
import threading
import urllib.request
from itertools import accumulate
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specsim.cli.output import Exit
from specsim.cli.simulating import metrics
from specsim.host.exposition import SpecCollector, served

NAMES = {
    "sglang:spec_accept_length",
    "sglang:spec_accept_rate",
    "sglang:spec_verify_calls_total",
    "sglang:spec_num_steps",
    "sglang:spec_num_draft_tokens",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    *(f"vllm:spec_decode_num_accepted_tokens_per_pos_total[{position}]" for position in range(5)),
}
SMALL = ("--requests", 3, "--batch", 2, "--prompt-length", 8, "--max-new-tokens", 24, "--metrics-interval", 2)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog, and the café's lazy dog sleeps on. " * 20)
    return path


def values_of(exposed):
    samples = [sample for family in text_string_to_metric_families(exposed) for sample in family.samples]
    places = [f"[{one.labels['position']}]" if "position" in one.labels else "" for one in samples]
    return {sample.name + place: sample.value for sample, place in zip(samples, places, strict=True)}


def test_the_file_holds_the_last_interval_of_the_report(specsim, text, tmp_path):
    path = tmp_path / "specsim.prom"
    got = specsim("simulate", "--text", text, *SMALL, "--metrics-file", path, "--json")
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    last, counted = report["intervals"][-1], report["spec_decode"]
    assert values_of(path.read_text()) == {
        "sglang:spec_accept_length": last["spec_accept_length"],
        "sglang:spec_accept_rate": last["spec_accept_rate"],
        "sglang:spec_verify_calls_total": report["spec_verify_ct"],
        "sglang:spec_num_steps": 5,
        "sglang:spec_num_draft_tokens": 16,
        "vllm:spec_decode_num_drafts_total": counted["num_drafts"],
        "vllm:spec_decode_num_draft_tokens_total": counted["num_draft_tokens"],
        "vllm:spec_decode_num_accepted_tokens_total": counted["num_accepted_tokens"],
        **{
            f"vllm:spec_decode_num_accepted_tokens_per_pos_total[{position}]": count
            for position, count in enumerate(counted["num_accepted_tokens_per_pos"])
        },
    }
    assert counted["num_accepted_tokens_per_pos"] == [sum(report["histogram"][place + 1 :]) for place in range(5)]
    assert counted["num_draft_tokens"] == 15 * counted["num_drafts"]


def test_the_figures_of_a_report_agree(specsim, text):
    report = json.loads(specsim("simulate", "--text", text, *SMALL, "--json").stdout)
    intervals, reported, histogram = report["intervals"], report["meta_info"], report["histogram"]
    assert {entry["num_batches"] for entry in intervals[:-1]} == {2}
    assert sum(entry["num_batches"] for entry in intervals) == report["num_iterations"]
    for name, total in (("spec_verify_ct", "spec_verify_ct"), ("spec_accepted_drafts", "num_accepted_drafts")):
        assert sum(entry[name] for entry in intervals) == sum(entry[name] for entry in reported) == report[total]
    assert sum(histogram) == report["spec_verify_ct"]
    assert sum(drafts * count for drafts, count in enumerate(histogram)) == report["num_accepted_drafts"]
    assert sum(entry["completion_tokens"] for entry in reported) == report["output_tokens"]
    for entry in reported:
        assert entry["spec_accept_length"] == entry["completion_tokens"] / entry["spec_verify_ct"]
        assert entry["spec_correct_drafts_histogram"] == entry["spec_accept_histogram"]


def test_a_running_simulation_is_scraped(specsim, text, monkeypatch):
    """The port that is named on stderr shows each interval as soon as it is counted, until the run ends."""
    urls, seen = [], []
    show = SpecCollector.show

    def scrape():
        with urllib.request.urlopen(urls[0], timeout=60) as response:
            return values_of(response.read().decode())

    def show_and_scrape(collector, *counted):
        show(collector, *counted)
        seen.append(scrape())

    monkeypatch.setattr(
        metrics, "remark", lambda reported: urls.append(re.fullmatch(r"metrics: (http://\S+)", reported).group(1))
    )
    monkeypatch.setattr(SpecCollector, "show", show_and_scrape)
    got = specsim("simulate", "--text", text, *SMALL, "--metrics-port", 0, "--json")
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", urls[0])
    assert all(values.keys() == NAMES for values in seen)
    for name in ("spec_accept_length", "spec_accept_rate"):
        assert [values[f"sglang:{name}"] for values in seen] == [entry[name] for entry in report["intervals"]]
    calls = [values["sglang:spec_verify_calls_total"] for values in seen]
    assert calls == list(accumulate(entry["spec_verify_ct"] for entry in report["intervals"]))
    with pytest.raises(OSError, match="refused"):
        scrape()


@pytest.mark.parametrize(("option", "value"), [("--metrics-port", 0), ("--metrics-file", "specsim.prom")])
def test_metrics_without_their_extra_are_refused_before_the_run(specsim, text, tmp_path, monkeypatch, option, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specsim.installation.importlib.util.find_spec", lambda name: None)
    got = specsim("simulate", "--text", text, *SMALL, option, value)
    assert got.exit_code == Exit.UNAVAILABLE
    assert got.stderr == f"specsim: {option} needs prometheus_client: pip install 'specsim-decoding[metrics]'\n"
    assert not (tmp_path / "specsim.prom").exists()


def test_the_end_of_a_run_waits_for_a_scraper():
    """An answer that has begun is sent to its end."""
    begun, goes_on, reported = threading.Event(), threading.Event(), threading.Event()

    class Slow(SpecCollector):
        def collect(self):
            begun.set()
            goes_on.wait(60)
            yield from super().collect()
            reported.set()

    with served(Slow(5, 16), 0) as url:
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port)) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert begun.wait(60)
            threading.Timer(0.1, goes_on.set).start()
    assert reported.is_set()


@pytest.mark.parametrize("model", ["text", "hash"])
def test_stops_end_outputs_where_plain_decoding_does(specsim, text, model):
    got = specsim(
        *("simulate", "--text", text, *SMALL, "--model", model, "--agreement", 1, "--json"),
        *("--stop", "dog", "--stop", "é", "--stop-token", ord("x"), "--stop-token", ord(","), "--eos", ord("v")),
        *("--min-new-tokens", 2),
    )
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert report["lossless"]
    if model == "text":
        ends = [entry["finish_reason"] for entry in report["meta_info"]]
        assert {end["type"] for end in ends} <= {"stop_string", "stop_token", "eos", "length"}
        assert {end["type"] for end in ends} & {"stop_string", "stop_token", "eos"}


def test_a_stop_string_is_matched_as_bytes_and_reported_as_text(specsim, tmp_path):
    path = tmp_path / "digits.txt"
    path.write_text("0123456789 café, " * 30)
    options = ("--requests", 1, "--prompt-length", 8, "--max-new-tokens", 32, "--stop", "fé")
    report = json.loads(specsim("simulate", "--text", path, *options, "--json").stdout)
    assert report["lossless"]
    assert report["meta_info"][0]["finish_reason"] == {"type": "stop_string", "matched": "fé"}


def test_the_table_shows_figures_only(specsim, text):
    got = specsim("simulate", "--text", text, *SMALL)
    assert got.exit_code == 0
    assert "histogram" in got.stdout
    assert "meta_info" not in got.stdout


def test_a_file_that_cannot_be_written_is_one_line(specsim, text, tmp_path):
    got = specsim("simulate", "--text", text, *SMALL, "--metrics-file", tmp_path / "absent" / "specsim.prom")
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert "--metrics-file" in got.stderr


def test_a_port_that_is_taken_is_one_line(specsim, text):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        got = specsim("simulate", "--text", text, *SMALL, "--metrics-port", taken.getsockname()[1])
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert "--metrics-port" in got.stderr


def test_rules_that_contradict_themselves_are_one_line(specsim, text):
    got = specsim("simulate", "--text", text, *SMALL, "--min-new-tokens", 25)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.startswith("specsim: BAD_CONFIGURATION: min_new_tokens is 25, but should be at most 24, ")
