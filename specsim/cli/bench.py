"""``specsim bench``: latencies on the GPU at hand, refused while agreement is red."""

from dataclasses import asdict

import click

from specsim.cli.device import choose_device, load_implementation
from specsim.cli.output import EXIT_CODES, Exit, Failed, console, finish, plain_table, print_json, remark

MEASURED = ("build_tree", "verify_tree_greedy", "move_kv_cache")


@click.command(epilog=EXIT_CODES)
@click.option("--examples", default=100, show_default=True, type=click.IntRange(1), help="Of each agreement check.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the agreement checks.")
@click.option("--iterations/--no-iterations", default=True, show_default=True, help="Measure decode iterations too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def bench(examples: int, seed: int, iterations: bool, as_json: bool) -> None:
    """Measure operations and decode iterations by CUDA-graph replay."""
    device = choose_device()
    if device == "absent":
        raise Failed("specsim.gpu needs torch and triton: pip install 'specsim[gpu]'", Exit.UNAVAILABLE)
    import torch

    if not torch.cuda.is_available():
        raise Failed("there is no GPU, and the time of an interpreter is no latency", Exit.UNAVAILABLE)
    from specsim.gpu import bench as measuring
    from specsim.properties.conformance.runner import check

    report = check(load_implementation("specsim.gpu"), seed=seed, max_examples=examples, operations=MEASURED)
    if report.verdict != "conforms":
        for failure in report.failures:
            remark(f"{failure.operation}: {failure.property}: {failure.message}")
        raise Failed(f"nothing was measured: agreement is red (verdict {report.verdict})", Exit.FAILURE)
    latencies = [measuring.measure(case) for case in measuring.operation_cases()]
    if iterations:
        latencies += measuring.measure_iterations()
    if as_json:
        print_json({"device": device, "agreement_examples": report.examples, "us": [asdict(row) for row in latencies]})
    else:
        table = plain_table("operation", "shape", "#median us", "#5 %", "#95 %", "#engines today us")
        for row in latencies:
            figures = (f"{value:.1f}" for value in (row.median_us, row.low_us, row.high_us))
            table.add_row(row.operation, row.shape, *figures, row.engines_us)
        console().print(table)
        click.echo(f"{device}; agreement: {report.examples} examples, no failure")
    finish(Exit.CONFORMS)
