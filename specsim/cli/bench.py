"""``specsim bench``: latencies on the GPU at hand, refused while agreement is red."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from specsim.cli.device import OURS, choose_device, load_implementation, need_suite
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, plain_table, print_json, print_table, progress, remark
from specsim.environment import INTERPRETER, says_yes

if TYPE_CHECKING:
    from specsim.gpu.bench.operations import Latency

COLUMNS = ("operation", "shape", "median µs", "5 % to 95 %", "engines today µs", "host µs", "prepared µs")


@click.command(epilog=EXIT_CODES)
@click.option(
    "--examples", default=200, show_default=True, type=click.IntRange(1), help="Examples of the check that runs first."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the check that runs first.")
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def bench(examples: int, seed: int, markdown: bool, as_json: bool) -> None:
    """Time operations on a GPU, once they agree with the reference.

    Operations are timed by CUDA-graph replay, and calls on the host.
    The last two columns are what an eager call costs on the host, and the part of it that allocates its outputs and
    starts its kernels with prepared arguments. ``python -m specsim.gpu.bench.host`` prints them for every operation.
    """
    device = choose_device()
    if device == "absent" or "CPU" in device or says_yes(INTERPRETER):
        raise Failed(f"latencies are measured on a GPU, and the device here is {device}", Exit.UNAVAILABLE)
    need_suite()
    backend = load_implementation(OURS)
    from specsim.gpu.bench import operations as benches
    from specsim.properties.conformance import runner

    cases = benches.operation_cases()
    measured = tuple(dict.fromkeys(case.operation for case in cases))
    with progress("agreement") as on_progress:
        report = runner.check(
            backend, seed=seed, max_examples=examples, operations=measured, slow_examples=1, on_progress=on_progress
        )
    if report.verdict != "conforms":
        for failure in report.failures:
            remark(f"{failure.operation}: {failure.property}: {failure.message}")
        raise Failed(f"no latencies: specsim check says {report.verdict}, seed {seed}", Exit.FAILURE)
    latencies = []
    with progress("latency") as on_progress:
        for done, case in enumerate(cases):
            if on_progress is not None:
                on_progress(f"{case.operation}, {case.shape}", done, len(cases) + 1)
            latencies.append(benches.measure(case))
        latencies += benches.measure_iterations()
        latencies += benches.measure_compositions()
    if as_json:
        print_json({"device": device, "latencies": [asdict(latency) for latency in latencies]})
    elif markdown:
        click.echo(
            "\n".join([_line(COLUMNS), _line(("---",) * len(COLUMNS)), *(_line(_row(one)) for one in latencies)])
        )
    else:
        table = plain_table(*COLUMNS, title=device)
        for latency in latencies:
            table.add_row(*_row(latency))
        print_table(table)
    figures = (f"{one.operation}, {one.shape}: {one.median_us:.1f} µs" for one in latencies)
    finish(Exit.CONFORMS, "; ".join(figures))


def _row(latency: "Latency") -> tuple[str, ...]:
    spread = f"{latency.low_us:.1f} to {latency.high_us:.1f}"
    host = (_microseconds(latency.host_us), _microseconds(latency.prepared_us))
    return latency.operation, latency.shape, f"{latency.median_us:.1f}", spread, latency.engines_us, *host


def _microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
