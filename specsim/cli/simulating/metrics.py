"""Where a run shows its metrics while it lasts: over HTTP, and in a file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from specsim.cli.output import Exit, Failed, remark
from specsim.config import SpecConfig
from specsim.host.metrics import IntervalStats, SpecCounters
from specsim.host.positions import PositionCounters
from specsim.installation import explain_missing, find_missing
from specsim.simulation.engine import OnInterval


@contextmanager
def shown_metrics(
    config: SpecConfig, model_name: str, port: int | None, address: str, path: Path | None
) -> Iterator[OnInterval | None]:
    """Serve metrics at a port and write them to a file, where asked to, until the block ends.

    Yields
    ------
    on_interval : callable or None
        Takes every report of the scheduler; None if no one asked for metrics.

    Raises
    ------
    Failed
        USAGE: the port cannot be listened at, or the file not written; UNAVAILABLE: ``prometheus_client`` is missing.
    """
    if port is None and path is None:
        yield None
        return
    if find_missing("metrics"):
        asked = "--metrics-file" if port is None else "--metrics-port"
        raise Failed(explain_missing("metrics", asked), Exit.UNAVAILABLE)
    from specsim.host.exposition import SpecCollector, served, write_textfile

    labels = {"model_name": model_name, "engine_type": "unified"}
    collector = SpecCollector(config.num_steps, config.num_draft_tokens, labels)

    def write() -> None:
        if path is not None:
            try:
                write_textfile(collector, path)
            except OSError as error:
                raise Failed(f"--metrics-file {path}: {error.strerror}", Exit.USAGE) from error

    def on_interval(stats: IntervalStats, counters: SpecCounters, positions: PositionCounters) -> None:
        collector.show(stats.rates, counters.total_verifies, positions)
        try:
            write()
        except Failed as failed:  # NOTE: what the run finds is worth more than its metrics.
            remark(f"{failed}; the run goes on")

    with ExitStack() as stack:
        if port is not None:
            try:
                url = stack.enter_context(served(collector, port, address))
            except OSError as error:
                raise Failed(f"--metrics-port {port} at {address}: {error.strerror}", Exit.USAGE) from error
            remark(f"metrics: {url}")
        write()
        yield on_interval
