"""Drawn drafts in whole runs: judged by the rows that they were drawn from, they change no law.

Every draw is tried. The operations of a loop are watched. Where rows of its draft model give the next candidates, one
is drawn from each, and what it was drawn from is kept. The drafts of a verify have to be the tokens that were drawn
last, in order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.composite import composite
from specsim.properties.distribution import (
    EVERYTHING,
    NOTHING,
    Outcome,
    Row,
    autoregressive,
    enumerate_cells,
    require_same_law,
)
from specsim.properties.laws.checks import require, state
from specsim.properties.laws.sampling_cells import (
    AS_A_BLOCK,
    TOKEN_BY_TOKEN,
    ChainRule,
    chain_axes,
    play_chains,
    slack_of,
)
from specsim.properties.runs.drafted import ALL_WORKERS, drafted_by
from specsim.properties.runs.play import Play
from specsim.properties.runs.sampling.laws_sampled import sampled_scenario
from specsim.properties.runs.sampling.sampled_law import HALVING
from specsim.properties.runs.sampling.sampled_runs import Forks, Run, Scripted, every_run, forks_of, total
from specsim.properties.runs.sampling.steered import TREES, scene_of
from specsim.properties.runs.scenario import Scenario
from specsim.properties.strategies.arrays import Array
from specsim.properties.strategies.sampling_scenes import ChainScene
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.sampled import next_shares

PICK, PICK_OF_BLOCK, BLOCK = "fast_topk", "argmax_target_predict", "prepare_block_draft"
"""What chooses candidates of rows: of a draft step, and of the rows of a block that was prepared before."""

SHARES = {
    size: tuple(Fraction(count, 16) for count in counts)
    for size, counts in {1: (16,), 2: (12, 4), 3: (10, 4, 2), 4: (8, 4, 3, 1)}.items()
}
"""What a draw takes the largest entries of a row for, by the columns of the draft model; no two are equal."""

HandOver = Callable[[tuple[Row, ...]], tuple[Row, ...]]
"""Returns what goes to verification of the rows that the drafts of a chain were drawn from."""

Known = dict[tuple[Outcome, tuple[Row, ...], tuple[Row, ...], int], Forks]
"""What verifies can output, by drafts, rows of both sides, and how many tokens of it count."""


@dataclass
class Proposing(Scripted):
    """Operations that draw the drafts of the one request of a run, and judge them by a rule on their rows.

    Parameters
    ----------
    operations : CallsByName
        What everything else runs on.
    script : tuple of int
        Which choice to take at each draw or verify; past its end it is the first.
    sampler : Backend
        Whose sampler of chains judges.
    rule : ChainRule
        How it judges.
    token_ids : sequence of int
        The target's token of every column of the draft model.
    vocab_size : int
        Tokens of the target.
    num_tokens : int
        How long the output is; draws that no longer matter are not tried.
    known : dict
        What verifies of other runs can output.
    hand_over : callable
        What of the rows goes to verification: all of them, as they are.
    """

    sampler: Backend
    rule: ChainRule
    token_ids: Sequence[int]
    vocab_size: int
    num_tokens: int
    known: Known
    hand_over: HandOver = tuple
    _drawn: list[tuple[int, Row]] = field(default_factory=list)
    _is_block: bool = False
    _num_emitted: int = 0

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; candidates are drawn, and a verify by chance judges them by their rows."""
        arguments = name_arguments(RECORDS[name], positional, named) if name in RECORDS else {}
        if name == TREES:
            return self._judged(arguments)
        returned = self.operations.call(name, *positional, **named)
        if name == PICK:
            columns = [self._draw(row) for row in arguments["values"]]
            return type(returned)(returned[0], np.array(columns, dtype=returned[1].dtype).reshape(returned[1].shape))
        if name == PICK_OF_BLOCK and self._is_block:
            self._is_block = False
            return np.array([self._draw(row) for row in arguments["logits"]], dtype=returned.dtype)
        self._is_block |= name == BLOCK
        return returned

    def _draw(self, values: Array) -> int:
        """Return a column that is drawn from fixed shares in the order of its value."""
        order = np.argsort(-values, kind="stable").tolist()
        shares = SHARES[len(order)]
        is_over = self._num_emitted >= self.num_tokens
        column: int = order[self.choose([EVERYTHING] if is_over else shares)]
        row = [NOTHING] * self.vocab_size
        for other, share in zip(order, shares, strict=True):
            row[self.token_ids[other]] = share
        self._drawn.append((self.token_ids[column], tuple(row)))
        return column

    def _judged(self, arguments: dict[str, Any]) -> Any:
        """Judge a chain by the rows that its drafts were drawn from, and return what the verify of trees would."""
        drafts = tuple(arguments["candidates"][0, 1:].tolist())
        drawn = self._drawn[len(self._drawn) - len(drafts) :]
        expected = tuple(token for token, _ in drawn)
        require(drafts == expected, "drafts that are handed to verification", list(drafts), list(expected))
        rows = tuple(row for _, row in drawn)
        rows, targets = self.hand_over(rows), scene_of(arguments, 0).rows
        left = self.num_tokens - self._num_emitted
        key = drafts, rows, targets, left
        if key not in self.known:
            self.known[key] = self._forks(*key)
        forks = self.known[key]
        outcome = forks.outcomes[self.choose(forks.weights)]
        self._num_emitted += len(outcome)
        return self._as_verified(arguments, outcome)

    def _forks(self, drafts: Outcome, rows: tuple[Row, ...], targets: tuple[Row, ...], left: int) -> Forks:
        fronts = [drafts[:place] for place in range(len(drafts) + 1)]
        target, proposal = dict(zip(fronts, targets, strict=True)), dict(zip(fronts, rows, strict=False))
        scene = ChainScene(len(drafts), target, proposal)
        slack = slack_of(scene.vocab_size)
        axes = chain_axes(scene, drafts, self.rule)
        coins = enumerate_cells(axes, slack, slack).coins
        (outcomes,) = play_chains(self.sampler, [scene], [drafts], [coins], self.rule.operation)
        return forks_of(axes, outcomes, slack, left)

    def _as_verified(self, arguments: dict[str, Any], outcome: Outcome) -> Any:
        verified = self.operations.call(TREES, **arguments)
        predict, path = np.zeros_like(verified.predict), np.full_like(verified.accept_index, -1)
        predict[: len(outcome)] = outcome
        path[0, : len(outcome)] = np.arange(len(outcome))
        count: Array = np.full_like(verified.num_accepted_drafts, len(outcome) - 1)
        return verified._replace(predict=predict, accept_index=path, num_accepted_drafts=count)


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

    known: Known = {}

    def make(script: tuple[int, ...]) -> Proposing:
        return Proposing(reference, script, backend, rule, token_ids, model.vocab_size, num_tokens, known, hand_over)

    def emitted(operations: Proposing) -> Outcome:
        return tuple(Play(scenario, operations=operations).run().requests[0].output)

    def row_after(tokens: Outcome) -> Row:
        return next_shares(model, [*first.prompt, *tokens])

    what = f"law of prompt {list(first.prompt)} on {scenario.worker_name}, drafts drawn, {rule.operation}, {model}"
    law = total([Run(outcome, one.weight, ()) for outcome, one in every_run(make, emitted)])
    require_same_law(what, law, autoregressive(row_after, num_tokens))


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
