"""Figures of speculation for Prometheus, under the names that users of engines already have."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from specsim.installation import explain_missing, find_missing

if find_missing("metrics"):
    raise ImportError(explain_missing("metrics", __name__))

from prometheus_client import CollectorRegistry, make_wsgi_app, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specsim.host.metrics import Rates
from specsim.host.positions import PositionCounters
from specsim.host.scraping import answering

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Snapshot:
    """What a scrape shows.

    The rates of the last interval, verifies and acceptance by position so far, and the sizes of the draft.
    """

    rates: Rates
    num_verifies: int
    positions: PositionCounters
    num_steps: int
    num_draft_tokens: int


class SpecCollector(Collector):
    """The metrics of one engine; a scrape in another thread sees one snapshot, never half of two.

    Parameters
    ----------
    num_steps, num_draft_tokens : int
        Sizes of the draft.
    labels : mapping
        Labels of every metric and their values.
    """

    def __init__(self, num_steps: int, num_draft_tokens: int, labels: Mapping[str, str] | None = None) -> None:
        self._labels = dict(labels or {})
        self.snapshot = Snapshot(Rates(0.0, 0.0), 0, PositionCounters(), num_steps, num_draft_tokens)

    def show(self, rates: Rates, num_verifies: int, positions: PositionCounters) -> None:
        """Show another interval, and the verifies and positions from the first interval to this one."""
        self.snapshot = replace(self.snapshot, rates=rates, num_verifies=num_verifies, positions=positions)

    def collect(self) -> Iterator[Metric]:
        """Return the metric families of the snapshot.

        Notes
        -----
        Source: semantics H.4, H.5.
        """
        shown = self.snapshot
        gauges = (
            ("spec_accept_length", "Tokens of a verify, bonus token included.", shown.rates.tokens_per_verify),
            ("spec_accept_rate", "Accepted drafts of those proposed, bonus token excluded.", shown.rates.accept_rate),
            ("spec_num_steps", "Levels of a draft.", shown.num_steps),
            ("spec_num_draft_tokens", "Nodes of a draft, root included.", shown.num_draft_tokens),
        )
        names, values = list(self._labels), list(self._labels.values())
        for name, documentation, value in gauges:
            gauge = GaugeMetricFamily(f"sglang:{name}", documentation, labels=names)
            gauge.add_metric(values, value)
            yield gauge
        positions = shown.positions
        counters = (
            ("sglang:spec_verify_calls", "Verifies of a request.", shown.num_verifies),
            ("vllm:spec_decode_num_drafts", "Verifies that proposed a draft.", positions.num_proposing),
            ("vllm:spec_decode_num_draft_tokens", "Proposed drafts.", positions.num_proposed_drafts),
            ("vllm:spec_decode_num_accepted_tokens", "Accepted drafts.", positions.num_accepted_drafts),
        )
        for name, documentation, count in counters:
            counter = CounterMetricFamily(name, documentation, labels=names)
            counter.add_metric(values, count)
            yield counter
        name, documentation = "vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted drafts by position."
        by_position = CounterMetricFamily(name, documentation, labels=[*names, "position"])
        accepted = dict(enumerate(positions.accepted))
        for position in range(max(shown.num_steps, len(accepted))):
            by_position.add_metric([*values, str(position)], accepted.get(position, 0))
        yield by_position


def registry_of(collector: SpecCollector) -> CollectorRegistry:
    """Return a registry that holds nothing else."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


@contextmanager
def served(collector: SpecCollector, port: int, address: str = LOOPBACK) -> Iterator[str]:
    """Serve the metrics over HTTP while the block runs.

    Parameters
    ----------
    port : int
        0 for any free port.
    address : str
        Interface to listen on.

    Yields
    ------
    url : str
        Where to scrape.

    Raises
    ------
    OSError
        The address is not there, or the port is taken.
    """
    host = f"[{address}]" if ":" in address else address
    with answering(make_wsgi_app(registry_of(collector)), port, address) as listened_at:
        yield f"http://{host}:{listened_at}/metrics"


def write_textfile(collector: SpecCollector, path: Path) -> None:
    """Write the metrics for the textfile collector; a reader sees the old file or the whole of the other.

    Raises
    ------
    OSError
        The file cannot be written, or is no file, as a device, whose place a file would take.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    write_to_textfile(str(path), registry_of(collector))
