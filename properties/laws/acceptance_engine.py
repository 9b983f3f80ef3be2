"""Rules of acceptance in whole runs: blocks keep the target's law, and no form of a run changes what a seed draws."""

from dataclasses import replace

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.acceptance import Acceptance
from specsim.properties.composite import composite
from specsim.properties.laws.sampled_engine import (
    TREES,
    MakeWorker,
    SampledRun,
    constrained_runs,
    decode,
    engine_emits_the_autoregressive_law,
    loops_on,
    seeded_runs,
    workers_of,
)
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.forks import seeds_of, total
from specsim.properties.laws.support.histories import parts_of
from specsim.properties.laws.support.sampled_law import HALVING, Sampled
from specsim.properties.laws.support.sampled_runs import COINS, ROWS
from specsim.properties.laws.support.steered import BLOCKS
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for

CHAINS = tuple(config for config in TREES if config.topk == 1)
LONGER, LONGEST = SpecConfig(1, 2, 3), SpecConfig(1, 3, 4)
"""Chains of which a front may be kept that is neither empty nor whole."""


def blocks_emit_the_autoregressive_law(backend: Backend, run: SampledRun) -> None:
    """Over all coins a request whose chains are judged as blocks emits exactly the law of decoding token by token.

    For seeds that lead to each way in which it can go, a worker outputs what is output there. Where drafts are the
    implementation's own, the same seed leads elsewhere.
    """
    sampled, parts = Sampled(run.model, run.prompts[0], num_tokens=run.num_tokens), parts_of(backend)

    def engine_on(make: MakeWorker, operations: CallsByName, num_seeds: int) -> Engine:
        sizes = sizes_for(run.config, sampled.requests(num_seeds), num_seeds + 1)
        return Engine(make(run, sizes), num_seeds + 1, 1, operations=operations)

    runs = sampled.runs(
        Completed(backend, load("specsim.reference")), lambda watched: engine_on(loops_on(watched), watched, 1)
    )
    sampled.require_law(total(runs))
    if backend.limits.has_own_drafts:
        return
    seeds = seeds_of(runs)
    outputs = sampled.play(engine_on(workers_of(backend), parts, len(seeds)), seeds)
    for one, seed, output in zip(runs, seeds, outputs, strict=True):
        what = f"output of seed {seed}, one of the {one.weight} that lead to one text, {run.config}"
        require(output == one.outcome, what, list(output), list(one.outcome))


def blocks_emit_the_law_of_a_grammar(backend: Backend, run: SampledRun) -> None:
    """The same under a processor and a grammar."""
    engine_emits_the_autoregressive_law(backend, run)


def no_form_of_a_run_changes_what_a_seed_draws(backend: Backend, run: SampledRun) -> None:
    """By every rule a seeded request outputs the same on V1 and V2, overlapped or not, on pages, and alone.

    Where drafts are the implementation's own, coins judge other ones in each form, and what the target draws alone is
    the same.
    """
    if backend.limits.has_own_drafts:
        run = replace(run, acceptance=Acceptance.TARGET_DRAW)
    make, parts, count = workers_of(backend), parts_of(backend), len(run.prompts)
    expected = decode(make, parts, run, count)
    others = {
        "on V1": (replace(run, is_v1=True), count),
        "under overlap": (replace(run, is_overlapped=True), count),
        "on pages of 4": (replace(run, page_size=4), count),
        "on V1 and pages of 3": (replace(run, is_v1=True, page_size=3), count),
        "in batches of one": (run, 1),
    }
    for how, (other, max_batch) in others.items():
        for number, request in decode(make, parts, other, max_batch).items():
            what = f"output of request {number} {how}, acceptance {run.acceptance.value}, {run.config}"
            require(request.output == expected[number].output, what, request.output, expected[number].output)


@composite
def lawful_blocks(draw: st.DrawFn) -> SampledRun:
    """Draw a run of a prompt's token and one whole block: drafts of which many are wrong, and the token after them."""
    sizes = ((LONGER, 3, 3), (LONGER, 3, 4), (LONGEST, 2, 5), (CHAINS[0], 3, 3))
    config, vocab_size, num_tokens = draw(st.sampled_from(sizes))
    model = HashModel(vocab_size, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.5, 0.3, 0.9))))
    prompt = draw(st.lists(st.integers(0, vocab_size - 1), min_size=1, max_size=4).map(tuple))
    is_v1 = draw(st.booleans())
    return SampledRun(config, model, (prompt,), (HALVING,), num_tokens, is_v1, acceptance=Acceptance.BLOCK)


@composite
def constrained_blocks(draw: st.DrawFn) -> SampledRun:
    """Draw a run under a grammar, whose chains are judged as blocks."""
    return replace(draw(constrained_runs()), config=draw(st.sampled_from(CHAINS)), acceptance=Acceptance.BLOCK)


@composite
def ruled_runs(draw: st.DrawFn) -> SampledRun:
    """Draw a batch of seeded requests, and by which rule their drafts are accepted."""
    run = draw(seeded_runs())
    is_chain = run.config.topk == 1
    rules = (Acceptance.BLOCK, Acceptance.TARGET_DRAW, Acceptance.TOKEN) if is_chain else (Acceptance.TARGET_DRAW,)
    return replace(run, acceptance=draw(st.sampled_from(rules)), is_v1=False)


_BLOCKS = (COINS, "hash_sampling_logits", ROWS, BLOCKS)

PROPERTIES = (
    state_of_runs("acceptance_engine", blocks_emit_the_autoregressive_law, lawful_blocks, _BLOCKS, "P03", plays=()),
    state_of_runs(
        "acceptance_engine",
        blocks_emit_the_law_of_a_grammar,
        constrained_blocks,
        (*_BLOCKS, "apply_logit_processors", "traverse_tree"),
        "P03",
        plays=(),
    ),
    # NOTE: a worker has no parameter for a rule unless it says so; the reference's loop runs in the place of others.
    state_of_runs(
        "acceptance_engine",
        no_form_of_a_run_changes_what_a_seed_draws,
        ruled_runs,
        (*_BLOCKS, "sample_target_predict", "verify_tree_greedy"),
        "P10",
        plays=(),
    ),
)
