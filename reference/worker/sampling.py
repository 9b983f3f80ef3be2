"""Acceptance of a batch in which requests are sampled, greedy, or both."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.acceptance import Acceptance
from specsim.operations.outputs import (
    ChainBlockVerificationOutputs,
    VerifyTreeGreedyOutputs,
    VerifyTreeSampledFromLogitsOutputs,
)
from specsim.operations.protocol import Operations
from specsim.phases import VerifyInput
from specsim.reference.worker.choices import ChoiceRows
from specsim.simulation.models.batches import TargetOutput

Accepted = VerifyTreeGreedyOutputs[Array] | VerifyTreeSampledFromLogitsOutputs[Array]
SAMPLED_DTYPES = (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16))


@dataclass(frozen=True)
class Links:
    """The trees of a batch as a verification takes them, each int64 [request, node]."""

    candidates: Array
    retrieve_index: Array
    retrieve_next_token: Array
    retrieve_next_sibling: Array

    def all(self) -> tuple[Array, Array, Array, Array]:
        """Return them in order."""
        return self.candidates, self.retrieve_index, self.retrieve_next_token, self.retrieve_next_sibling


def greedy_choices(output: TargetOutput[Array], operations: Operations[Array]) -> Array:
    """Return the target's greedy choice of every row of logits, int64 [row]."""
    logits = output.logits
    is_comparable = logits.dtype in (np.dtype(np.int64), np.dtype(np.float32))
    return operations.argmax_target_predict(logits if is_comparable else logits.astype(np.float32))


def accept(
    row: Array,
    phase: VerifyInput,
    output: TargetOutput[Array],
    target_predict: Array,
    num_steps: int,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> Accepted:
    """Accept along the trees: greedily where nothing is sampled, else by chance for the whole batch.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    output : TargetOutput
        The target's logits after every node.
    target_predict : int64 [request*node]
        The target's greedy choice after every node.

    Returns
    -------
    accepted : tuple
        ``predict``, ``accept_index`` and ``num_accepted_drafts``.

    Notes
    -----
    Source: semantics B.8, B.9, B.9b, Q.2. Beside a sampled request a greedy one has temperature 0 and keeps its own
    choices.
    """
    shape = phase.retrieve_index.shape
    links = Links(
        phase.draft_token.reshape(shape),
        phase.retrieve_index,
        phase.retrieve_next_token,
        phase.retrieve_next_sibling,
    )
    if not choices.has_sampled(row):
        return operations.verify_tree_greedy(*links.all(), target_predict.reshape(shape), num_steps)
    if choices.is_top_k_exact:
        output = _keep_top_k_exactly(row, output, target_predict, shape[1], choices, operations)
    positions = phase.positions.reshape(shape)
    return verify_sampled(row, links, positions, phase.seq_lens, output, target_predict, num_steps, choices, operations)


def _keep_top_k_exactly(
    row: Array,
    output: TargetOutput[Array],
    target_predict: Array,
    num_nodes: int,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> TargetOutput[Array]:
    """Return logits without ties at the k-th; a greedy request keeps its choice alone (semantics A.14)."""
    is_greedy = choices.is_greedy(row)
    logits = sampling_logits(output, target_predict, np.repeat(is_greedy, num_nodes))
    top_k = np.where(is_greedy, 1, choices.parameters(row)["top_k"]).astype(np.int32)
    return TargetOutput(operations.keep_top_k_exactly(logits, top_k, num_nodes), output.hidden_states)


def first_tokens(
    row: Array,
    lengths: Array,
    output: TargetOutput[Array],
    target_predict: Array,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> Array:
    """Return the token after each prompt, int64 [request]: a verify of the last prompt token without drafts.

    Its coins are those of the length before that token, so that no later verify of the request shares them; its noise
    is that of the token's own position.
    """
    if not choices.has_sampled(row):
        return target_predict
    alone = np.full((len(row), 1), -1, dtype=np.int64)
    links = Links(np.zeros((len(row), 1), dtype=np.int64), np.arange(len(row), dtype=np.int64)[:, None], alone, alone)
    before = lengths.astype(np.int64) - 1
    accepted = verify_sampled(row, links, before[:, None], before, output, target_predict, 0, choices, operations)
    first: Array = accepted.predict.astype(np.int64)
    return first


def verify_sampled(
    row: Array,
    links: Links,
    positions: Array,
    seq_lens: Array,
    output: TargetOutput[Array],
    target_predict: Array,
    num_steps: int,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> Accepted:
    """Accept by chance, as the rule of the worker says: by coins of every request, or along what the target draws.

    Parameters
    ----------
    positions : int64 [request, node]
        Position of every node.
    """
    num_nodes, parameters = links.candidates.shape[1], choices.parameters(row)
    logits = sampling_logits(output, target_predict, np.repeat(choices.is_greedy(row), num_nodes))
    seeds, temperature = choices.seeds(row), parameters["temperature"]
    filters = temperature, parameters["top_k"], parameters["top_p"], parameters["min_p"]
    if choices.acceptance is Acceptance.TARGET_DRAW:
        drawn = operations.sample_target_predict(logits, *filters, seeds, positions)
        return operations.verify_tree_greedy(*links.all(), drawn, num_steps)
    coins, final = operations.generate_coins(seeds, seq_lens, num_nodes)
    if choices.acceptance is Acceptance.BLOCK:
        target_probs = operations.target_probabilities(logits, *filters, num_nodes)
        return _verify_blocks(links, coins, final, target_probs, num_steps, operations)
    thresholds = parameters["threshold_single"], parameters["threshold_acc"]
    return operations.verify_tree_sampled_from_logits(
        *links.all(), coins, final, logits, *filters, *thresholds, num_steps
    )


def _verify_blocks(
    links: Links, coins: Array, final: Array, target_probs: Array, num_steps: int, operations: Operations[Array]
) -> VerifyTreeGreedyOutputs[Array]:
    """Judge the drafts of every chain as a block; they were not drawn, so that each is certain."""
    is_linked = links.retrieve_next_token[:, :-1] >= 0
    judged: ChainBlockVerificationOutputs[Array] = operations.chain_block_verification(
        np.where(is_linked, links.candidates[:, 1:], -1).reshape(-1),
        np.arange(len(final) + 1, dtype=np.int32) * np.int32(is_linked.shape[1]),
        np.ascontiguousarray(coins[:, :-1]).reshape(-1),
        final,
        None,
        target_probs,
        num_steps,
    )
    is_kept = np.arange(links.candidates.shape[1]) <= judged.num_accepted_drafts[:, None]
    return VerifyTreeGreedyOutputs(
        np.where(is_kept, judged.output_tokens, 0).reshape(-1),
        np.where(is_kept, links.retrieve_index, -1).astype(np.int32),
        judged.num_accepted_drafts,
    )


def distribution_logits(output: TargetOutput[Array]) -> Array:
    """Return the logits that make a distribution, those that tokens are chosen from where there are no others."""
    logits = output.logits if output.sampling_logits is None else output.sampling_logits
    return logits if logits.dtype in SAMPLED_DTYPES else logits.astype(np.float32)


def sampling_logits(output: TargetOutput[Array], target_predict: Array, is_greedy: Array) -> Array:
    """Return logits that can be sampled from; those of greedy requests have the greedy choice alone on top.

    Parameters
    ----------
    is_greedy : bool [row]
        Whether the row belongs to a greedy request.
    """
    logits = distribution_logits(output)
    if output.sampling_logits is None:
        return logits
    is_chosen = np.arange(logits.shape[1]) == target_predict[:, None]
    chosen: Array = np.where(is_greedy[:, None], np.where(is_chosen, 0, -1), logits).astype(logits.dtype)
    return chosen
