"""Where acceptance comes from: runs of a toy model on a text, or a replay of the logits of a real pair."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.algorithms import Drafter
from specsim.cli.names import JOBS
from specsim.cli.output import Exit, Failed
from specsim.cli.simulating import drafting as drafts
from specsim.cli.simulating import options
from specsim.cli.simulating.accepted import DUMP, DUMP_OPTIONS, FILE, count_dump, counts_of
from specsim.config import MOST_NODES
from specsim.host.sampling import ALL_TOKENS
from specsim.rejection import contradiction
from specsim.simulation.models.text_model import TEXT_VOCABULARY
from specsim.tuning.counted import Cell
from specsim.tuning.ranges import parse_range
from specsim.tuning.sweep import Count, Ranges, combine

PROMPT_LENGTH = 32
MOST_AT_ONCE = 64
"""Requests of a batch, which change nothing of what is accepted but where drafts come from other outputs."""
_RANGES = (
    click.option("--topk", default="1,2,4", show_default=True, metavar="RANGE", help="Beams, or the breadth of NGRAM."),
    click.option("--steps", default="1..4", show_default=True, metavar="RANGE", help="Depth of a draft."),
    click.option(
        "--draft-tokens",
        default="4,8,16",
        show_default=True,
        metavar="RANGE",
        help="Nodes of a tree or a block, root included; a chain has one more than steps.",
    ),
)
"""Ranges are numbers with commas between them, FIRST..LAST, or FIRST..LAST..STEP."""

_SOURCE = (
    click.option(
        "--algorithm",
        "algorithms",
        multiple=True,
        type=click.Choice(drafts.NAMES, case_sensitive=False),
        help="Algorithm that drafts; repeatable.  [default: EAGLE]",
    ),
    click.option(
        "--drafter", "drafters", multiple=True, metavar="MODULE:NAME", help="Drafter of a module; repeatable."
    ),
    *DUMP_OPTIONS,
    click.option("--text", "path", type=FILE, help="Text of the prompts and of the text model."),
    click.option(
        "--model", "kind", default="text", show_default=True, type=click.Choice(["text", "hash"]), help="Toy model."
    ),
    click.option(
        "--agreement",
        default=0.7,
        show_default=True,
        type=click.FloatRange(0, 1),
        help="Share of right drafts of the hash model.",
    ),
    click.option(
        "--requests", "num_requests", default=16, show_default=True, type=click.IntRange(1), help="Prompt count."
    ),
    click.option(
        "--max-new-tokens", default=32, show_default=True, type=click.IntRange(2), help="Tokens of an output."
    ),
    click.option("--temperature", default=0.0, show_default=True, type=float, help="Temperature; 0 is greedy."),
    click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Seed of models and intervals."
    ),
    click.option("--jobs", default=1, show_default=True, type=JOBS, help="Processes that combinations run in."),
)


@dataclass(frozen=True)
class Source:
    """What is run: the configurations, how one is counted, and what a stored run says of it."""

    cells: list[Cell]
    count: Count
    about: dict[str, Any]
    seed: int
    jobs: int = 1


SOURCE_NAMES = (
    "topk",
    "steps",
    "draft_tokens",
    "algorithms",
    "drafters",
    "dump",
    "draft_choice",
    "path",
    "kind",
    "agreement",
    "num_requests",
    "max_new_tokens",
    "temperature",
    "seed",
    "jobs",
)


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``source``: a function that reads them and returns one."""

    @functools.wraps(command)
    def called(**others: Any) -> None:
        asked = {name: others.pop(name) for name in SOURCE_NAMES}
        command(source=functools.partial(_source_of, **asked), **others)

    return options.with_options((*_RANGES, *_SOURCE), called)


def _source_of(
    *,
    topk: str,
    steps: str,
    draft_tokens: str,
    algorithms: tuple[str, ...],
    drafters: tuple[str, ...],
    dump: Path | None,
    draft_choice: str,
    path: Path | None,
    kind: str,
    agreement: float,
    num_requests: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    jobs: int,
) -> Source:
    """Return what is run, once ranges are known to be ranges, and files to be there.

    Raises
    ------
    Failed
        USAGE: an option that has no use here.
    SpecRejection
        Ranges or a dump that are none, or too many combinations.
    """
    because = "a draft cannot propose more tokens than the model has"
    ranges = Ranges(
        parse_range("--topk", topk, 1, TEXT_VOCABULARY, because),
        parse_range("--steps", steps, 1, MOST_NODES - 1, f"a path fits into a tree of {MOST_NODES} nodes"),
        parse_range("--draft-tokens", draft_tokens, 1, MOST_NODES, "one block of a kernel holds a tree"),
    )
    sampling = options.parameters_of(temperature, ALL_TOKENS, 1.0, 0.0, 0)
    if dump is not None:
        options.require_alone("--dump", "algorithms", "drafters", "path", "kind", "agreement", "num_requests", "jobs")
        cells = combine([(DUMP, ranges)], temperature)
        return Source(cells, *count_dump(dump, temperature, draft_choice == "sampled"), seed)
    if math.isnan(agreement):
        raise Failed("--agreement is NaN, but should be 0 to 1", Exit.USAGE)
    if draft_choice != "greedy":
        raise Failed("--drafts sampled is for --dump: toy models propose their first choices", Exit.USAGE)
    if sampling is not None and kind != "hash":
        raise Failed("--temperature needs --model hash: the text model has no logits for sampling", Exit.USAGE)
    records = {
        name: drafts.drafter_of(name, None) for name in (algorithms or ("EAGLE",) if not drafters else algorithms)
    }
    records |= {name: drafts.drafter_named(name) for name in drafters}
    for record in records.values():
        drafts.require_sides(record, ("reference",))
    text = options.read_text(path)
    options.check_counts(
        num_requests=num_requests,
        topk=1,
        num_steps=1,
        num_draft_tokens=1,
        max_batch=1,
        prompt_length=PROMPT_LENGTH,
        max_new_tokens=max_new_tokens,
        page_size=1,
        text_length=len(text),
    )
    cells = combine([(name, _ranges_of(record, ranges)) for name, record in records.items()], temperature)
    about: dict[str, Any] = {
        "text": None if path is None else path.name,
        "model": kind,
        "max_new_tokens": max_new_tokens,
    }
    about |= {"agreement": agreement} if kind == "hash" else {}
    toy = _Toy(records, text, kind, agreement, num_requests, max_new_tokens, sampling, seed)
    return Source(cells, toy.count, about, seed, jobs)


def _ranges_of(record: Drafter, ranges: Ranges) -> Ranges:
    """Return what is combined of a drafter: blocks and texts have no depth, and blocks no breadth."""
    return replace(ranges, has_depth=not record.parameters, has_breadth=not record.parameters or record.reads_texts)


@dataclass(frozen=True)
class _Toy:
    """Runs of a toy model on the reference."""

    records: dict[str, Drafter]
    text: bytes
    kind: str
    agreement: float
    num_requests: int
    max_new_tokens: int
    sampling: Any
    seed: int

    def count(self, cell: Cell) -> Cell:
        """Decode the prompts with one configuration.

        Raises
        ------
        SpecRejection
            The rules refuse it.
        """
        from specsim.simulation.engine import Engine
        from specsim.simulation.models.hash_model import HashModel
        from specsim.simulation.models.text_model import TextModel
        from specsim.simulation.report import requests_from_text

        record = self.records[cell.drafter]
        algorithm = record.algorithm.value if record.name else cell.drafter
        sizes = cell.topk, cell.steps if not record.parameters else record.default_sizes[1], cell.draft_tokens
        max_batch = min(self.num_requests, MOST_AT_ONCE)
        choices = (False, max_batch, 1, "auto", False, False, options.StoreOptions())
        plan = drafts.resolved(record, algorithm, sizes, cell.draft_tokens, *choices)
        drafting = drafts.drafting_of(plan, record)
        model: Any = TextModel.from_text(self.text) if self.kind == "text" else None
        model = HashModel(options.HASH_VOCABULARY, self.seed, self.agreement) if model is None else model
        model = replace(model, **drafts.of_the_model(record, None))
        cut = (self.text, self.num_requests, PROMPT_LENGTH, self.max_new_tokens)
        requests = requests_from_text(*cut, sampling=self.sampling)
        worker = drafts.build_worker(plan, record, "reference", drafting, model, requests, max_batch, None)
        engine = Engine(worker, max_batch, self.seed)
        for request in requests:
            engine.submit(request)
        counted = tuple(map(counts_of, engine.run()))
        if not any(one.verifies for one in counted):
            raise contradiction("max_new_tokens", self.max_new_tokens, "more", "no request came to a verify")
        steps, extends = drafts.forwards_of(record, cell.steps)
        return msgspec.structs.replace(
            cell, requests=counted, worker=plan.worker or "", step_forwards=steps, extend_forwards=extends
        )
