"""Drawn drafts in whole runs: judged by the rows that they were drawn from, they change no law."""

import numpy as np
from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row, autoregressive, require_same_law
from specsim.properties.laws.checks import state
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, TOKEN_BY_TOKEN, ChainRule
from specsim.properties.runs.drafted import ALL_WORKERS, drafted_by
from specsim.properties.runs.play import Play
from specsim.properties.runs.sampling.laws_sampled import sampled_scenario
from specsim.properties.runs.sampling.proposing_runs import HandOver, Known, Proposing, law_of_proposing
from specsim.properties.runs.sampling.sampled_law import HALVING
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.sampled import next_shares

SIZES = ((2, 1, 3), (2, 2, 3), (3, 1, 2), (3, 2, 2), (4, 2, 2))
"""Tokens of the target, drafts, and tokens of the output."""

LOOPS = tuple(name for name in ALL_WORKERS if not name.startswith(("ngram", "eagle3")))
"""The loops of all drafters that have a draft model, which gives rows; EAGLE3's are EAGLE's."""


def drawn_drafts_emit_the_autoregressive_law(backend: Backend, scenario: Scenario) -> None:
    """Over the draws of the drafts and all coins, an engine whose chains are drawn emits the law of plain decoding."""
    require_law_of_drawn(backend, scenario, TOKEN_BY_TOKEN)


def drawn_blocks_emit_the_autoregressive_law(backend: Backend, scenario: Scenario) -> None:
    """The same where the drafts of a chain are judged as a block."""
    require_law_of_drawn(backend, scenario, AS_A_BLOCK)


def require_law_of_drawn(backend: Backend, scenario: Scenario, rule: ChainRule, hand_over: HandOver = tuple) -> None:
    """Raise AssertionError unless a loop of the reference, with drawn drafts that a sampler judges, loses nothing.

    ``hand_over`` returns what goes to verification of the rows that drafts were drawn from.
    """
    reference, model, first = load("specsim.reference"), scenario.model, scenario.arrivals[0]
    hot, num_tokens = model.hot_token_id, first.max_new_tokens
    token_ids = range(model.vocab_size) if hot is None else hot.tolist()

    def make(script: tuple[int, ...], known: Known) -> Proposing:
        return Proposing(reference, script, backend, rule, token_ids, model.vocab_size, num_tokens, known, hand_over)

    def emitted(operations: Proposing) -> Outcome:
        return tuple(Play(scenario, operations=operations).run().requests[0].output)

    def row_after(tokens: Outcome) -> Row:
        return next_shares(model, [*first.prompt, *tokens])

    what = f"law of prompt {list(first.prompt)} on {scenario.worker_name}, drafts drawn, {rule.operation}, {model}"
    require_same_law(what, law_of_proposing(make, emitted), autoregressive(row_after, num_tokens))


@composite
def drawn_runs(draw: st.DrawFn) -> Scenario:
    """Draw a sampled request on any loop; where a draft may have a vocabulary of its own, most lack a token."""
    vocab_size, num_drafts, num_tokens = draw(st.sampled_from(SIZES))
    name = draw(st.sampled_from(LOOPS))
    model = HashModel(vocab_size, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.5, 0.9, 1.0))))
    is_short = draw(st.sampled_from((True, False))) and vocab_size > 2 and not name.startswith("dflash")
    prompt = tuple(draw(st.lists(st.integers(0, vocab_size - 1), min_size=1, max_size=4)))
    config = SpecConfig(1, num_drafts, num_drafts + 1)
    scenario = drafted_by(name, sampled_scenario(config, model, [prompt], (HALVING,), num_tokens))
    hot = np.arange(vocab_size - 1, 0, -1, dtype=np.int64)
    return scenario.having(hot_token_id=hot) if is_short else scenario


PROPERTIES = tuple(
    state("proposals_engine", law, drawn_runs, (rule.operation,), "P03", is_slow=True)
    for law, rule in (
        (drawn_drafts_emit_the_autoregressive_law, TOKEN_BY_TOKEN),
        (drawn_blocks_emit_the_autoregressive_law, AS_A_BLOCK),
    )
)
