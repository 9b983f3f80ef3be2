"""Acceptance of a batch in which requests are sampled, greedy, or both."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.phases import VerifyInput
from specsim.reference.worker.heads import Heads

Accepted = tuple[Array, Array, Array]


def accept(
    row: Array,
    phase: VerifyInput,
    hidden_states: Array,
    target_predict: Array,
    num_steps: int,
    heads: Heads,
    call: Callable[..., Any],
) -> Accepted:
    """Accept along the trees: greedily where nothing is sampled, else by chance for the whole batch.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    hidden_states : int64 [request*node, hidden]
        Of the target, after every node.
    target_predict : int64 [request*node]
        The target's greedy choice after every node.
    call : callable
        Runs an operation by name.

    Returns
    -------
    accepted : tuple
        ``predict``, ``accept_index`` and ``num_accepted_drafts``.

    Notes
    -----
    Source: semantics B.8, B.9. Beside a sampled request a greedy one has temperature 0 and keeps its own choices.
    """
    shape = phase.retrieve_index.shape
    tree = {
        "candidates": phase.draft_token.reshape(shape),
        "retrieve_index": phase.retrieve_index,
        "retrieve_next_token": phase.retrieve_next_token,
        "retrieve_next_sibling": phase.retrieve_next_sibling,
        "num_steps": num_steps,
    }
    accepted: Accepted
    if not heads.sampling.has_sampled(row):
        accepted = call("verify_tree_greedy", **tree, target_predict=target_predict.reshape(shape))
    else:
        accepted = verify_sampled(row, tree, phase.seq_lens, hidden_states, target_predict, heads, call)
    return accepted


def first_tokens(
    row: Array,
    lengths: Array,
    hidden_states: Array,
    target_predict: Array,
    heads: Heads,
    call: Callable[..., Any],
) -> Array:
    """Return the token behind each prompt, int64 [request]: a verify of the last prompt token without drafts.

    Its coins are those of the length before that token, so that no later verify of the request shares them.
    """
    if not heads.sampling.has_sampled(row):
        return target_predict
    alone = np.full((len(row), 1), -1, dtype=np.int64)
    tree = {
        "candidates": np.zeros((len(row), 1), dtype=np.int64),
        "retrieve_index": np.arange(len(row), dtype=np.int64)[:, None],
        "retrieve_next_token": alone,
        "retrieve_next_sibling": alone,
        "num_steps": 0,
    }
    predict, _, _ = verify_sampled(row, tree, lengths.astype(np.int64) - 1, hidden_states, target_predict, heads, call)
    return predict.astype(np.int64)


def verify_sampled(
    row: Array,
    tree: dict[str, Any],
    seq_lens: Array,
    hidden_states: Array,
    target_predict: Array,
    heads: Heads,
    call: Callable[..., Any],
) -> Accepted:
    """Draw the coins of every request and accept by chance."""
    sampling, num_nodes = heads.sampling, tree["candidates"].shape[1]
    uniform_samples, final = call(
        "generate_coins", seeds=sampling.seeds(row), seq_lens=seq_lens, num_draft_tokens=num_nodes
    )
    accepted: Accepted = call(
        "verify_tree_sampled_from_logits",
        **tree,
        uniform_samples=uniform_samples,
        uniform_samples_for_final_sampling=final,
        logits=heads.sampling_logits(hidden_states, target_predict, np.repeat(sampling.is_greedy(row), num_nodes)),
        **sampling.parameters(row),
    )
    return accepted
