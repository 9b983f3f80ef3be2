"""A page that compares algorithms: ``python -m specsim.cli.simulating.algorithms_page LICENSE`` prints it.

Everything is greedy and runs on the reference, so that figures follow from the text alone.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter
from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.direct import Direct
from specsim.counts import count_tokens, path_width
from specsim.host.ngram import NgramParameters
from specsim.reference.models import ToyModel
from specsim.simulation.engine import Engine
from specsim.simulation.models.agreement import ForwardKind
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.needs import fields_for
from specsim.simulation.models.padded import PaddedModel
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text
from specsim.simulation.requests import Request
from specsim.simulation.worker import Worker

NUM_REQUESTS, PROMPT_LENGTH, OUTPUT_LENGTH, BATCH = 6, 32, 48, 3
NUM_BUCKETS = 4096
DEPTHS = (1, 2, 4)
CHAIN = SpecConfig(1, 3, 4)
NO_DRAFTS = NgramParameters(num_draft_tokens=1)

OF_TARGET = {kind for kind in ForwardKind if kind.is_of_target}
OF_FEATURES = {ForwardKind.FEATURES_OF_PROMPTS, ForwardKind.FEATURES}
"""What makes KV of features without proposing anything is no forward of a draft."""

Make = Callable[[Model[Any], PoolSizes], Worker]


@dataclass(frozen=True)
class Compared:
    """One algorithm with its sizes: how its worker is made, and what its model is beside the text's."""

    name: str
    drafts: str
    config: SpecConfig
    make: Make
    differs: Mapping[str, Any]


@dataclass(frozen=True)
class Figures:
    """What a run came to."""

    num_verifies: int
    reported: Mapping[str, Any]
    num_output_tokens: int
    num_target_forwards: int
    num_draft_forwards: int


def _compared(drafter: Drafter, name: str, drafts: str, drafting: Any, differs: Mapping[str, Any]) -> Compared:
    make = partial(drafter.loop("reference", is_v1=True), drafting, reads=Reads.KEPT)
    return Compared(name, drafts, drafting.config, make, differs)


def algorithms() -> tuple[Compared, ...]:
    """Return what is compared, the one without drafts first, and then those that have no draft model."""
    (of_texts,) = (one for one in DRAFTERS.values() if one.reads_texts)
    found = [_compared(of_texts, "none", "nothing", NO_DRAFTS, {})]
    for drafter in sorted(DRAFTERS.values(), key=lambda one: not one.reads_texts):
        name = f"multi-layer {drafter.algorithm.value}" if drafter.is_multi_layer else drafter.algorithm.value
        differs = fields_for(drafter, CHAIN.num_steps, (0,))
        sizes = drafter.default_sizes
        if drafter.parameters:
            drafts = f"a tree of {sizes[2]} nodes" if drafter.reads_texts else f"a block of {sizes[2]}"
            found.append(_compared(drafter, name, drafts, drafter.drafting(*sizes), differs))
            continue
        found.append(_compared(drafter, name, f"a chain of {CHAIN.num_steps} drafts", CHAIN, differs))
        if sizes[0] > 1:
            drafts = f"{sizes[0]} beams, {sizes[1]} levels, {sizes[2]} nodes"
            found.append(_compared(drafter, name, drafts, SpecConfig(*sizes), differs))
    return tuple(found)


def measure(one: Compared, language_model: TextModel, requests: Sequence[Request]) -> Figures:
    """Decode the requests, and return what that came to.

    Raises
    ------
    AssertionError
        An output is not the one of plain decoding.
    """
    own = replace(language_model, **one.differs)
    # NOTE: a padded model counts its forwards, and changes no output.
    toy = ToyModel(own, Direct(load("specsim.reference")), may_keep=True)
    model = PaddedModel(toy, path_width(one.config.num_steps), frozen_width=one.config.topk)
    engine = Engine(one.make(model, sizes_for(one.config, requests, BATCH)), BATCH)
    for request in requests:
        engine.submit(request.fresh())
    done = engine.run()
    for request in done:
        expected = greedy_decode(language_model, request.prompt, request.max_new_tokens)
        require(request.output == expected, f"output of {one.name}", request.output, expected)
    return Figures(
        num_verifies=sum(request.counters.num_verifies for request in done),
        reported=engine.positions.public(),
        num_output_tokens=sum(len(request.output) for request in done),
        num_target_forwards=sum(model.forwards[kind] for kind in OF_TARGET),
        num_draft_forwards=sum(model.forwards[kind] for kind in {*ForwardKind} - OF_TARGET - OF_FEATURES),
    )


def page(text: bytes, name: str) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    text : bytes
        What prompts are cut out of, and what the models have learnt.
    name : str
        What the page calls it.
    """
    model = TextModel.from_text(text, NUM_BUCKETS)
    requests = requests_from_text(text, NUM_REQUESTS, PROMPT_LENGTH, OUTPUT_LENGTH)
    found = [(one, measure(one, model, requests)) for one in algorithms()]
    lines = [
        "# Algorithms on one text",
        "",
        f"Generated by `python -m specsim.cli.simulating.algorithms_page {name}`: {NUM_REQUESTS} requests of"
        f" {PROMPT_LENGTH}",
        f"bytes of the file `{name}`, {OUTPUT_LENGTH} greedy output tokens each, {BATCH} at once, on V1 of the",
        "reference. The target is a byte model that looks four bytes back, the draft model one that looks three back,",
        "both learnt from the same file; what the numbers have to say is how the algorithms differ. All of them",
        "output the same tokens, which is checked while the page is made.",
        "",
        "A verify is that of one request; a forward is that of a batch, prefills included. A length counts the bonus",
        "token, a rate does not; drafts after the end of an output count nowhere. `at 1`, `at 2` and `at 4` are the",
        "share of verifies that accepted so many drafts or more.",
        "",
        *_table(found),
        "",
        "- **NGRAM** has no draft model and costs no forward of one: what it knows are the outputs so far, so that it",
        "  begins with nothing. Nodes that only fill its tree up count as proposed.",
        "- **EAGLE** runs its draft once a level but the first, which the extend after the verify before has drafted",
        "  already. A tree accepts more a verify than a chain, and a smaller share of what it proposes.",
        "- **EAGLE3** hears every layer of the target. The toy draft knows no more from that, so that it drafts alike.",
        "- **Multi-layer EAGLE** drafts with one small layer a level; all of them catch up after a verify.",
        "- **STANDALONE** is a language model of its own, which sees tokens alone and never the first one.",
        "- **FROZEN_KV_MTP** drafts from the target's KV. It has neither KV nor an extend of its own, so that its",
        "  first level costs a forward as well.",
        "- **DFLASH** drafts a whole block in one forward. A toy goes on as well at its end as at its beginning, which",
        "  real ones do not.",
        "",
        "`specsim simulate --text FILE --json` tells acceptance by position of any text (H.5 of the",
        "[semantics](semantics.md)).",
    ]
    return "\n".join(lines) + "\n"


def _table(found: Sequence[tuple[Compared, Figures]]) -> list[str]:
    header = (
        "algorithm",
        "drafts",
        "verifies",
        "accepted drafts",
        "of those proposed",
        "tokens a verify",
        *(f"at {depth}" for depth in DEPTHS),
        "forwards of the target",
        "of the draft",
        "tokens a forward of the target",
    )
    rows = [_row(one, figures) for one, figures in found]
    return ["| " + " | ".join(cells) + " |" for cells in (header, ("---",) * len(header), *rows)]


def _row(one: Compared, figures: Figures) -> tuple[str, ...]:
    reported, num_verifies = figures.reported, figures.num_verifies
    num_drafts = reported["num_accepted_tokens"]
    rates = dict(enumerate(reported["per_position_acceptance_rate"], 1))
    depths = [f"{rates[depth]:.2f}" if depth in rates else "" for depth in DEPTHS]
    return (
        one.name,
        one.drafts,
        str(num_verifies),
        str(num_drafts),
        f"{reported['draft_acceptance_rate']:.2f}" if rates else "",
        f"{count_tokens(num_drafts, num_verifies) / num_verifies:.2f}",
        *depths,
        str(figures.num_target_forwards),
        str(figures.num_draft_forwards),
        f"{figures.num_output_tokens / figures.num_target_forwards:.2f}",
    )


if __name__ == "__main__":
    (path,) = map(Path, sys.argv[1:])
    print(page(path.read_bytes(), path.name), end="")
