"""Laws of samplers on rows where rounding matters: the law moves by no more than rounding its inputs may move it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.contracts.rounding import softmax_bound
from specsim.properties.composite import composite
from specsim.properties.distribution import Coins, Outcome
from specsim.properties.laws.checks import Array, Case, for_each, outputs_of, require_rounded, states
from specsim.properties.laws.sampling_cells import (
    BLOCK_SAMPLER,
    CHAIN_SAMPLER,
    TREE_SAMPLER,
    play_chains,
    play_trees,
    slack_of,
)
from specsim.properties.operations.acceptance import laws_exact_chains as sampling_chain_law
from specsim.properties.operations.acceptance import laws_exact_trees as sampling_law
from specsim.properties.operations.acceptance.laws_exact_chains import require_chain_law
from specsim.properties.operations.from_logits.laws_exact_chains import playing_logits
from specsim.properties.operations.from_logits.laws_exact_trees import (
    logit_array,
    require_law_from_logits,
    sampling_arguments,
)
from specsim.properties.operations.from_logits.logit_chains import CHAIN_FROM_LOGITS
from specsim.properties.operations.from_logits.rounded import (
    Judged,
    along_a_tree,
    as_a_block,
    one_by_one,
    require_possible,
)
from specsim.properties.operations.from_logits.strategy_rounded import (
    FAR_LOGIT,
    far_chain_batches,
    far_logit_batches,
    rounded_chains,
    rounded_trees,
    subnormal_rows,
)
from specsim.properties.strategies.logit_scenes import HALVING_TEMPERATURE, ChainLogitBatch, LogitScene
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene

FAR_EXPONENT = FAR_LOGIT / HALVING_TEMPERATURE
TIMES_OF_ROWS = 16
"""Of what is left of a row less another one, edges move by so many times what either row does."""


def slack_from_far_logits(vocab_size: int) -> Fraction:
    """Return how far from edges an implementation in float32 may be asked whose logits are far from 0."""
    return 2 * Fraction(softmax_bound(vocab_size, FAR_EXPONENT))


def chain_moves_no_more_than_its_inputs(backend: Backend, scene: ChainScene) -> None:
    """At every coin beside an edge, a chain emits what it may for some rows that round to those it was given."""
    _require_rounded_chain(backend, scene, CHAIN_SAMPLER, one_by_one)


def block_moves_no_more_than_its_inputs(backend: Backend, scene: ChainScene) -> None:
    """At every coin beside an edge, a block emits what it may for some rows that round to those it was given."""
    _require_rounded_chain(backend, scene, BLOCK_SAMPLER, as_a_block)


def _require_rounded_chain(
    backend: Backend, scene: ChainScene, sampler: str, judge: Callable[[ChainScene, Outcome, Fraction], Judged]
) -> None:
    drafts = [draft for draft, _ in scene.drafts()]
    judged = [judge(scene, draft, slack_of(scene.vocab_size)) for draft in drafts]
    coins = [one.coins() for one in judged]
    emitted = play_chains(backend, [scene] * len(drafts), drafts, coins, sampler)
    for draft, one, rows, outcomes in zip(drafts, judged, coins, emitted, strict=True):
        first = ", ".join(f"{float(share):.9g}" for share in scene.target[()])
        require_possible(
            f"{sampling_chain_law.describe(scene)}, so about ({first}), drafts {list(draft)}", one, rows, outcomes
        )


def tree_moves_no_more_than_its_inputs(backend: Backend, scene: TreeScene) -> None:
    """At every coin beside an edge, a tree emits what it may for some rows that round to those it was given."""
    judged = along_a_tree(scene, slack_of(scene.vocab_size))
    coins = judged.coins()
    (emitted,) = play_trees(backend, [scene], [coins])
    require_possible(sampling_law.describe(scene), judged, coins, emitted)


def far_logits_emit_the_filtered_law(backend: Backend, case: tuple[list[LogitScene], str]) -> None:
    """Logits about 10,000 and -10,000, beside -inf or in its place, emit the law of their differences."""
    scenes, dtype = case
    require_law_from_logits(backend, scenes, slack_from_far_logits(scenes[0].tree.vocab_size), dtype)


def far_logits_have_the_filtered_probabilities(backend: Backend, case: tuple[list[LogitScene], str]) -> None:
    """The probabilities of such logits are those of their differences."""
    scenes, dtype = case
    logits = np.concatenate([logit_array(scene.logits) for scene in scenes])
    arguments = sampling_arguments(scenes, [1] * len(scenes))
    call: Case = {name: arguments[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    call["logits"] = logits.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else logits
    call["num_draft_tokens"] = len(scenes[0].tree.topology)
    got = outputs_of(backend, "target_probabilities", call)["target_probs"]
    expected = [[float(share) for share in row] for scene in scenes for row in scene.tree.rows]
    require_rounded("the probabilities of logits far from 0", got, expected, FAR_EXPONENT)


def chains_from_far_logits_emit_the_targets_law(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draft's draws and all coins, chains of such logits on either side emit the law of their differences."""
    slack = TIMES_OF_ROWS * slack_from_far_logits(batch.scenes[0].chain.vocab_size)
    as_given = playing_logits(backend, batch, slack)

    def play_off_zero(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        # NOTE: a logit of -10,000 is no -inf, and a coin of 0 accepts what is possible at all.
        return as_given.play(places, drafts, [np.maximum(one, np.float32(slack)) for one in coins])

    require_chain_law(replace(as_given, play=play_off_zero))


def subnormal_mass_is_renormalised(backend: Backend, case: tuple[str, Case]) -> None:
    """What a filter keeps of subnormal probabilities is divided by its sum, however small that is."""
    operation, arguments = case
    given = arguments["probabilities"].astype(np.float64)
    got = outputs_of(backend, operation, arguments)["renormalised"]
    require_rounded(f"the rows of {operation}", got, given / given.sum(axis=1, keepdims=True))


@composite
def _subnormal_filters(draw: st.DrawFn) -> tuple[str, Case]:
    """Draw a filter that keeps everything, and rows for it."""
    rows: Array = draw(subnormal_rows())
    name, value = draw(
        st.sampled_from((("top_k", np.int32(2**30)), ("top_p", np.float32(1)), ("min_p", np.float32(0))))
    )
    return f"{name}_renorm", {"probabilities": rows, name: np.full(len(rows), value)}


PROPERTIES = states(
    "rounding",
    (for_each(chain_moves_no_more_than_its_inputs), rounded_chains, CHAIN_SAMPLER, "P02"),
    (for_each(block_moves_no_more_than_its_inputs), rounded_chains, BLOCK_SAMPLER, "P02"),
    (tree_moves_no_more_than_its_inputs, rounded_trees, TREE_SAMPLER, "P03"),
    (far_logits_emit_the_filtered_law, far_logit_batches, "verify_tree_sampled_from_logits", "P13"),
    (far_logits_have_the_filtered_probabilities, far_logit_batches, "target_probabilities", "P13"),
    (for_each(chains_from_far_logits_emit_the_targets_law), far_chain_batches, CHAIN_FROM_LOGITS, "P02"),
    (subnormal_mass_is_renormalised, _subnormal_filters, ("top_k_renorm", "top_p_renorm", "min_p_renorm"), "P13"),
)
