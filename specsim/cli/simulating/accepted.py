"""What a simulation accepted, request by request: of a run or of a dump of logits, and beside a stored one."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.algorithms import Drafter
from specsim.cli.output import Exit, Failed, finish, plain_table, print_json, print_table
from specsim.cli.simulating import options, stored
from specsim.cli.simulating.drafting import forwards_of
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.host.sampling import ALL_TOKENS, SamplingParameters
from specsim.simulation.requests import Request
from specsim.tuning.counted import Cell, Figures, RequestCounts, figures_of, prompt_key, public
from specsim.tuning.guard import MARGIN
from specsim.tuning.sweep import Count

FILE = click.Path(path_type=Path, readable=False)
DUMP = "dump"
"""What stands for the algorithm of a pair whose logits are replayed: a draft that runs a forward a step."""

Guard = Callable[[Cell], stored.Guards]
"""Compares what was counted with a stored run."""

DEFAULT_STEPS = 3
NOT_OF_A_DUMP = ("path", "num_requests", "algorithm", "drafter", "multi_layer", "kind", "agreement", "worker", "pool")

DUMP_OPTIONS = (
    click.option("--dump", type=FILE, metavar="FILE", help="Replay the logits of a real pair (safetensors)."),
    click.option(
        "--drafts",
        "draft_choice",
        default="greedy",
        show_default=True,
        type=click.Choice(["greedy", "sampled"]),
        help="Drafts of --dump: the first choices, or drawn at the temperature.",
    ),
)

_OPTIONS = (
    *DUMP_OPTIONS,
    click.option("--baseline", type=FILE, metavar="FILE", help="Compare acceptance with the JSON of an earlier run."),
    click.option(
        "--margin",
        default=MARGIN,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Loss of tokens per verify that counts as none, as a share.",
    ),
)


def with_acceptance(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets ``guard``, None without a baseline; a dump is replayed in its place."""

    @functools.wraps(command)
    def called(*, dump: Path | None, draft_choice: str, baseline: Path | None, margin: float, **others: Any) -> None:
        before = None if baseline is None else stored.read_cells("--baseline", baseline)
        guard: Guard | None = None
        if before is not None:
            guard = functools.partial(_guard, before, others["seed"], margin)
        if dump is None:
            if draft_choice != "greedy":
                raise Failed("--drafts sampled is for --dump: toy models propose their first choices", Exit.USAGE)
            command(guard=guard, **others)
            return
        options.require_alone("--dump", *NOT_OF_A_DUMP)
        _replay(dump, draft_choice == "sampled", guard, others)

    return options.with_options(_OPTIONS, called)


def cell_of(
    name: str,
    record: Drafter,
    topk: int,
    config: SpecConfig,
    worker: str | None,
    sampling: SamplingParameters | None,
    requests: Sequence[Request],
) -> Cell:
    """Return a configuration with what its run counted."""
    steps = 0 if record.parameters else config.num_steps
    temperature = 0.0 if sampling is None else sampling.temperature
    sizes = (topk, steps, config.num_draft_tokens)
    return Cell(name, *sizes, temperature, worker or "", *forwards_of(record, steps), tuple(map(counts_of, requests)))


def counts_of(request: Request) -> RequestCounts:
    """Return what the verifies of a request accepted."""
    counted = request.counters
    histogram = tuple(map(float, counted.histogram))
    return RequestCounts(prompt_key(request.prompt), counted.num_verifies, counted.num_accepted_drafts, histogram)


def count_dump(path: Path, temperature: float, is_drawn: bool) -> tuple[Count, dict[str, Any]]:
    """Return what replays the logits of a file, which is read once, and what the file says of the pair.

    Raises
    ------
    Failed
        USAGE: there is no such file.
    SpecRejection
        BAD_CONFIGURATION: it is no dump.
    """
    from specsim.tuning.dumps import Dump, replayed

    if not path.is_file():
        raise Failed(f"--dump {path}: {'no file' if path.exists() else 'No such file or directory'}", Exit.USAGE)
    dump = Dump(path)
    outputs = list(dump.judged(temperature))

    def count(cell: Cell) -> Cell:
        requests = replayed(outputs, cell.topk, cell.steps, cell.draft_tokens, temperature, is_drawn)
        return msgspec.structs.replace(cell, requests=requests, step_forwards=cell.steps - 1, extend_forwards=1)

    names = {name: value for name, value in dump.metadata.items() if name in ("target", "draft")}
    return count, {"dump": path.name, "drafts": "sampled" if is_drawn else "greedy", **names}


def _guard(before: Sequence[Cell], seed: int, margin: float, cell: Cell) -> stored.Guards:
    return stored.guard_all(before, [cell], seed, margin)


def _replay(dump: Path, is_drawn: bool, guard: Guard | None, given: dict[str, Any]) -> None:
    """Replay a dump, print what its verifies accept by position, and end the command."""
    temperature, seed = given["temperature"], given["seed"]
    options.parameters_of(temperature, given["top_k"] or ALL_TOKENS, given["top_p"], given["min_p"], 0)
    options.require_alone("--dump", "top_k", "top_p", "min_p", "acceptance")
    topk = given["topk"] or 1
    steps = given["steps"] or (DEFAULT_STEPS if topk == 1 else 1)
    nodes = path_width(steps) if topk == 1 else given["draft_tokens"] or topk + 1
    count, about = count_dump(dump, temperature, is_drawn)
    cell = count(Cell(DUMP, topk, steps, nodes, temperature))
    figures, guards = figures_of(cell.requests, seed), None if guard is None else guard(cell)
    if given["as_json"]:
        document: dict[str, Any] = {"source": about, "seed": seed, **public(figures)}
        document |= {"acceptance": msgspec.to_builtins(cell)}
        document |= {} if guards is None else {"guard": stored.public(guards)}
        print_json(document)
    else:
        print_figures(cell, figures)
        if guards:
            stored.print_guards(guards, "")
    finish(Exit.CONFORMS if guards is None else stored.exit_of(guards))


def print_figures(cell: Cell, figures: Figures) -> None:
    """Print tokens of a verify, and acceptance by position, with intervals."""
    head = f"{cell}: {figures.num_requests:,} prompts, {figures.num_verifies:,.1f} verifies"
    table = plain_table("figure", "#value", "#from", "#to", title=head)
    named = {"tokens per verify": figures.tokens_per_verify, "accepted per verify": figures.accepted_per_verify}
    named |= {f"accepted at position {place}": one for place, one in enumerate(figures.by_position)}
    named |= {f"of those that came so far, {place}": one for place, one in enumerate(figures.conditional)}
    for name, one in named.items():
        bounds = ("unknown" if bound is None else f"{bound:.4f}" for bound in (one.low, one.high))
        table.add_row(name, f"{one.value:.4f}", *bounds)
    print_table(table)
