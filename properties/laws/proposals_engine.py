"""Drawn drafts in whole runs: judged by the rows that they were drawn from, they change no law."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from specsim.algorithms import WORKERS
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.host.dflash import DflashParameters
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row, autoregressive, require_same_law
from specsim.properties.laws.sampled_engine import MakeWorker, SampledRun, decode
from specsim.properties.laws.support.checks import state
from specsim.properties.laws.support.proposing_runs import HandOver, Known, Proposing, law_of_proposing
from specsim.properties.laws.support.sampled_law import HALVING
from specsim.properties.laws.support.sampling_cells import AS_A_BLOCK, TOKEN_BY_TOKEN, ChainRule
from specsim.reference.models import load_model
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.sampled import next_shares
from specsim.simulation.worker import Worker

SIZES = ((2, 1, 3), (2, 2, 3), (3, 1, 2), (3, 2, 2), (4, 2, 2))
"""Tokens of the target, drafts, and tokens of the output."""

LOOPS = tuple(name for name in WORKERS if not name.startswith("ngram"))
"""The loops of all drafters that have a draft model, which gives rows."""


@dataclass(frozen=True)
class DrawnRun:
    """A sampled request on the loop of a name, whose chains are drawn."""

    loop: str
    run: SampledRun


def drawn_drafts_emit_the_autoregressive_law(backend: Backend, case: DrawnRun) -> None:
    """Over the draws of the drafts and all coins, an engine whose chains are drawn emits the law of plain decoding."""
    require_law_of_drawn(backend, case, TOKEN_BY_TOKEN)


def drawn_blocks_emit_the_autoregressive_law(backend: Backend, case: DrawnRun) -> None:
    """The same where the drafts of a chain are judged as a block."""
    require_law_of_drawn(backend, case, AS_A_BLOCK)


def require_law_of_drawn(backend: Backend, case: DrawnRun, rule: ChainRule, hand_over: HandOver = tuple) -> None:
    """Raise AssertionError unless a loop of the reference, with drawn drafts that a sampler judges, loses nothing.

    ``hand_over`` returns what goes to verification of the rows that drafts were drawn from.
    """
    reference, run = load("specsim.reference"), case.run
    hot, prompt = run.model.hot_token_id, run.prompts[0]
    token_ids = range(run.model.vocab_size) if hot is None else hot.tolist()

    def make(script: tuple[int, ...], known: Known) -> Proposing:
        sizes = run.model.vocab_size, run.num_tokens
        return Proposing(reference, backend, rule, token_ids, *sizes, script, known, hand_over)

    def emitted(operations: Proposing) -> Outcome:
        return tuple(decode(_loop(case.loop, operations), operations, run, max_batch=1)[0].output)

    def row_after(tokens: Outcome) -> Row:
        return next_shares(run.model, [*prompt, *tokens])

    what = f"law of prompt {list(prompt)} on {case.loop}, drafts drawn, {rule.operation}, {run.config}, {run.model}"
    require_same_law(what, law_of_proposing(make, emitted), autoregressive(row_after, run.num_tokens))


def _loop(name: str, operations: Proposing) -> MakeWorker:
    """Return what makes a loop of the reference on operations; a block is masked with token 0."""

    def make(run: SampledRun, sizes: PoolSizes) -> Worker:
        is_block = name.startswith("dflash")
        parameters = DflashParameters(run.config.num_draft_tokens, 0) if is_block else run.config
        worker: Worker = loop_of(name)(parameters, load_model(run.model, operations), sizes, operations=operations)
        return worker

    return make


@composite
def drawn_runs(draw: st.DrawFn) -> DrawnRun:
    """Draw a sampled request on any loop; where a draft may have a vocabulary of its own, most lack a token."""
    vocab_size, num_drafts, num_tokens = draw(st.sampled_from(SIZES))
    loop = draw(st.sampled_from(LOOPS))
    model = HashModel(vocab_size, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.5, 0.9, 1.0))))
    if loop.startswith("multi_layer"):
        model = replace(model, draft_source=DraftSource.LAYERS, num_draft_layers=num_drafts)
    elif loop.startswith("standalone"):
        model = replace(model, draft_source=DraftSource.TOKENS)
    elif loop.startswith("frozen"):
        model = replace(model, kv_sharing=(0,))
    if draw(st.sampled_from((True, False))) and vocab_size > 2 and not loop.startswith("dflash"):
        model = replace(model, hot_token_id=np.arange(vocab_size - 1, 0, -1, dtype=np.int64))
    run = SampledRun(
        config=SpecConfig(1, num_drafts, num_drafts + 1),
        model=model,
        prompts=(tuple(draw(st.lists(st.integers(0, vocab_size - 1), min_size=1, max_size=4))),),
        sampling=(HALVING,),
        num_tokens=num_tokens,
    )
    return DrawnRun(loop, run)


PROPERTIES = tuple(
    state("proposals_engine", law, drawn_runs, (rule.operation,), "P03", is_slow=True)
    for law, rule in (
        (drawn_drafts_emit_the_autoregressive_law, TOKEN_BY_TOKEN),
        (drawn_blocks_emit_the_autoregressive_law, AS_A_BLOCK),
    )
)
