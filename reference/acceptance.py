"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import count_drafts, count_tokens, path_width
from specsim.hashing import digest
from specsim.host.sampling import COIN_BITS, FINAL_COLUMN
from specsim.host.simulated import SIMULATED_TOKEN
from specsim.operations.outputs import (
    ChainBlockVerificationOutputs,
    ChainSpeculativeSamplingOutputs,
    GenerateCoinsOutputs,
    GenerateSimulatedAcceptIndexOutputs,
    TreeSpeculativeSamplingTargetOnlyOutputs,
)
from specsim.reference.walks import Acceptance, Coins, DraftTree, walk_block, walk_chain, walk_tree
from specsim.topology import Topology
from specsim.validation.checking import check_call


def generate_coins(seeds: Array, seq_lens: Array, num_draft_tokens: int) -> GenerateCoinsOutputs[Array]:
    """Draw the coins of a verify, each a hash of the request's seed, its length and a column.

    Parameters
    ----------
    seeds : int64 [request]
        0 to 2**32-1.
    seq_lens : int64 or int32 [request]
        Committed lengths: every iteration of a request has other coins.
    num_draft_tokens : int
        Nodes of a request; the node number is the column of its coin.

    Returns
    -------
    uniform_samples : float32 [request, node]
        Multiples of 2**-24 in [0, 1).
    uniform_samples_for_final_sampling : float32 [request]
        The same in a column of their own.

    Notes
    -----
    Source: semantics B.9. A coin depends neither on the neighbours of its request nor on the width of the tree.
    """
    axes = check_call("generate_coins", locals())
    num_draft_tokens = axes["num_draft_tokens"]
    uniform_samples = np.zeros((axes["request"], num_draft_tokens), dtype=np.float32)
    final = np.zeros(axes["request"], dtype=np.float32)
    for request in range(axes["request"]):
        for node in range(num_draft_tokens):
            uniform_samples[request, node] = coin(int(seeds[request]), int(seq_lens[request]), node)
        final[request] = coin(int(seeds[request]), int(seq_lens[request]), FINAL_COLUMN)
    return GenerateCoinsOutputs(uniform_samples, final)


def coin(seed: int, seq_len: int, column: int) -> float:
    """Return one coin."""
    return float((digest([seed, seq_len, column]) >> (32 - COIN_BITS)) / 2**COIN_BITS)


def tree_speculative_sampling_target_only(
    candidates: Array,
    retrieve_index: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    target_probs: Array,
    draft_probs: Array,
    threshold_single: Array,
    threshold_acc: Array,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> TreeSpeculativeSamplingTargetOnlyOutputs[Array]:
    """Walk each tree by chance: one coin a node, shared by its children, against the target's running mass.

    Parameters
    ----------
    candidates : int64 [request, node]
        Token of each node.
    retrieve_index : int64 [request, node]
        Global number of each node.
    retrieve_next_token : int64 [request, node]
        First child, -1 if none.
    retrieve_next_sibling : int64 [request, node]
        Next sibling, -1 if none.
    uniform_samples : float32 [request, node]
        The coin with which the children of a node are tried, in [0, 1).
    uniform_samples_for_final_sampling : float32 [request]
        The coin of the last token.
    target_probs : float32 [request, node, vocab]
        Distribution of the token that follows each node.
    draft_probs : float32 [request, node, vocab]
        Zeros; afterwards the target's probability of every rejected child, in its parent's row.
    threshold_single, threshold_acc : float32 [request]
        1 and 1 leave the target's law as it is; less accepts more.
    num_steps : int
        Longest path, root excluded.
    strict : bool
        Accept below the running mass and never at probability 0; otherwise also at equality.
    skip_duplicates : bool
        Pass over a child whose token was rejected at the same parent; otherwise its mass counts again.

    Returns
    -------
    predict : int32 [request*node]
        Output token that follows each accepted node; 0 and undefined elsewhere.
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes in path order, padding -1.
    num_accepted_drafts : int32 [request]
        Accepted nodes without the root.

    Raises
    ------
    SpecRejection
        CYCLIC_TREE, SHARED_NODE, NODE_OUT_OF_RANGE; COIN_OUT_OF_RANGE: a coin is 1; EMPTY_DISTRIBUTION: a row has no
        mass; PROBABILITY_OUT_OF_RANGE: ``draft_probs`` is not zero.

    Notes
    -----
    Source: semantics B.8, A.13.
    """
    axes = check_call("tree_speculative_sampling_target_only", locals())
    num_steps, strict, skip_duplicates = axes["num_steps"], axes["strict"], axes["skip_duplicates"]
    num_requests = axes["request"]
    predict = np.zeros(num_requests * axes["node"], dtype=np.int32)
    accept_index = np.full((num_requests, path_width(num_steps)), -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(num_requests, dtype=np.int32)
    for request in range(num_requests):
        tree = Topology.from_links(retrieve_next_token[request], retrieve_next_sibling[request])
        walk = walk_tree(
            DraftTree(tree, candidates[request].tolist(), num_steps, bool(skip_duplicates)),
            Coins(uniform_samples[request], float(uniform_samples_for_final_sampling[request])),
            target_probs[request].__getitem__,
            Acceptance(float(threshold_single[request]), float(threshold_acc[request]), bool(strict)),
        )
        for place, node in enumerate(walk.path):
            accept_index[request, place] = retrieve_index[request, node]
            predict[retrieve_index[request, node]] = walk.tokens[place]
        num_accepted_drafts[request] = count_drafts(len(walk.tokens))
        for node, token in walk.rejected:
            draft_probs[request, node, token] = target_probs[request, node, token]
    return TreeSpeculativeSamplingTargetOnlyOutputs(predict, accept_index, num_accepted_drafts)


def chain_speculative_sampling(
    draft_tokens: Array,
    cu_num_drafts: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    draft_probs: Array | None,
    target_probs: Array,
    max_num_drafts: int,
) -> ChainSpeculativeSamplingOutputs[Array]:
    """Accept ragged chains by rejection sampling against the draft's own probabilities.

    Parameters
    ----------
    draft_tokens : int64 [drafted]
        The drafts of all requests one after another; a -1 ends the draft of its request.
    cu_num_drafts : int32 [request+1]
        Where each request's drafts start.
    uniform_samples : float32 [drafted]
        One coin a draft.
    uniform_samples_for_final_sampling : float32 [request]
        The coin of the last token.
    draft_probs : float32 [drafted, vocab] or None
        The law that each draft was drawn from; None for drafts that were not drawn, which are certain.
    target_probs : float32 [drafted+request, vocab]
        Rows ``cu_num_drafts[b]+b`` and following: the distribution of each token of request b, one more than drafts.
    max_num_drafts : int
        The longest draft that an output row holds.

    Returns
    -------
    output_tokens : int32 [request, draft+1]
        The accepted drafts and one more token, padding -1.
    num_accepted_drafts : int32 [request]
        Accepted drafts.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the offsets do not cut the drafts; COUNT_OUT_OF_RANGE: a draft is too long;
        COIN_OUT_OF_RANGE, EMPTY_DISTRIBUTION, TOKEN_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.9. Draft x is accepted if ``coin * q(x) < p(x)`` and q(x) > 0. The first rejection draws from
    ``max(p - q, 0)``; after the end of a draft the last token is drawn from p.
    """
    return ChainSpeculativeSamplingOutputs(*_walk_chains("chain_speculative_sampling", locals(), walk_chain))


def chain_block_verification(
    draft_tokens: Array,
    cu_num_drafts: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    draft_probs: Array | None,
    target_probs: Array,
    max_num_drafts: int,
) -> ChainBlockVerificationOutputs[Array]:
    """Accept ragged chains by judging the drafts of each together, as a block.

    Parameters
    ----------
    draft_tokens : int64 [drafted]
        The drafts of all requests one after another; a -1 ends the draft of its request.
    cu_num_drafts : int32 [request+1]
        Where each request's drafts start.
    uniform_samples : float32 [drafted]
        One coin a draft. All of them are asked: a coin that keeps no draft ends nothing.
    uniform_samples_for_final_sampling : float32 [request]
        The coin of the last token.
    draft_probs : float32 [drafted, vocab] or None
        The law that each draft was drawn from; None for drafts that were not drawn, which are certain.
    target_probs : float32 [drafted+request, vocab]
        Rows ``cu_num_drafts[b]+b`` and following: the distribution of each token of request b, one more than drafts.
    max_num_drafts : int
        The longest draft that an output row holds.

    Returns
    -------
    output_tokens : int32 [request, draft+1]
        The accepted drafts and one more token, padding -1.
    num_accepted_drafts : int32 [request]
        Accepted drafts.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the offsets do not cut the drafts; COUNT_OUT_OF_RANGE: a draft is too long;
        COIN_OUT_OF_RANGE, EMPTY_DISTRIBUTION, TOKEN_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.9b. The share of the first j drafts is the running product of ``p(x) / q(x)``, cut at 1 after
    each. The most drafts are kept whose coin lies below their chance, which is the share of all drafts, and of fewer
    one by the mass of ``max(share * p - q, 0)``. That is also what the token after them is drawn from, or p after all
    drafts. The rows of all drafts are read; the row after them is read where all drafts are kept.
    """
    return ChainBlockVerificationOutputs(*_walk_chains("chain_block_verification", locals(), walk_block))


def _walk_chains(name: str, arguments: dict[str, Any], walk: Callable[..., list[int]]) -> tuple[Array, Array]:
    """Walk the chains of a call one after another; return the output tokens and the accepted drafts of each."""
    axes = check_call(name, arguments)
    max_num_drafts = axes["max_num_drafts"]
    cu_num_drafts, draft_probs = arguments["cu_num_drafts"], arguments["draft_probs"]
    output_tokens = np.full((axes["request"], count_tokens(max_num_drafts)), -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        first, last = int(cu_num_drafts[request]), int(cu_num_drafts[request + 1])
        final_coin = float(arguments["uniform_samples_for_final_sampling"][request])
        tokens = walk(
            arguments["draft_tokens"][first:last].tolist(),
            Coins(arguments["uniform_samples"][first:last], final_coin),
            None if draft_probs is None else draft_probs[first:last],
            arguments["target_probs"][first + request : last + request + 1],
        )
        output_tokens[request, : len(tokens)] = tokens
        num_accepted_drafts[request] = count_drafts(len(tokens))
    return output_tokens, num_accepted_drafts


def generate_simulated_accept_index(
    accept_index: Array, simulated_num_tokens: int, num_draft_tokens: int
) -> GenerateSimulatedAcceptIndexOutputs[Array]:
    """Pretend that every request accepted the same number of tokens along its first nodes.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Of the real verify; only its first column is used.
    simulated_num_tokens : int
        Tokens a request, the bonus token included: 1 to draft+1.
    num_draft_tokens : int
        Nodes of a request.

    Returns
    -------
    predict : int32 [request*node]
        Token 100 everywhere.
    simulated_accept_index : int32 [request, draft+1]
        The root and the nodes that follow it in number, padding -1.
    num_accepted_drafts : int32 [request]
        One less than the tokens.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: more tokens than a path holds; MALFORMED_PATH.

    Notes
    -----
    Source: semantics B.10.
    """
    axes = check_call("generate_simulated_accept_index", locals())
    simulated_num_tokens, num_draft_tokens = axes["simulated_num_tokens"], axes["num_draft_tokens"]
    predict = np.full(axes["request"] * num_draft_tokens, SIMULATED_TOKEN, dtype=np.int32)
    simulated_accept_index = np.full(accept_index.shape, -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        for place in range(simulated_num_tokens):
            simulated_accept_index[request, place] = accept_index[request, 0] + place
        num_accepted_drafts[request] = count_drafts(simulated_num_tokens)
    return GenerateSimulatedAcceptIndexOutputs(predict, simulated_accept_index, num_accepted_drafts)
