"""Acceptance straight from raw logits: trees by composing the operations that it replaces, chains in log space."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.logit_rows import EVERY_TOKEN
from specsim.counts import count_drafts, count_tokens
from specsim.operations.outputs import (
    ChainBlockVerificationFromLogitsOutputs,
    ChainSpeculativeSamplingFromLogitsOutputs,
    VerifyTreeGreedyFromLogitsOutputs,
    VerifyTreeSampledFromLogitsOutputs,
)
from specsim.reference.acceptance import tree_speculative_sampling_target_only
from specsim.reference.probabilities import target_probabilities
from specsim.reference.verify import argmax_target_predict, verify_tree_greedy
from specsim.reference.walks import LogitChain, logit_chain, walk_block_from_logits, walk_chain_from_logits
from specsim.validation.checking import check_call


def verify_tree_greedy_from_logits(
    candidates: Array,
    retrieve_index: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    logits: Array,
    num_steps: int,
) -> VerifyTreeGreedyFromLogitsOutputs[Array]:
    """Accept greedily from raw logits: the composition of the argmax and the greedy walk.

    Parameters
    ----------
    candidates : int64 [request, node]
        Token of each node.
    retrieve_index, retrieve_next_token, retrieve_next_sibling : int64 [request, node]
        Global numbers and links, padding -1.
    logits : float32 or bfloat16 [request*node, vocab]
        Prepared logits.
    num_steps : int
        Longest path, root excluded.

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
        CYCLIC_TREE, SHARED_NODE, NODE_OUT_OF_RANGE, NAN_SCORE.

    Notes
    -----
    Source: semantics B.6. Rows that the walk does not visit have no influence.
    """
    axes = check_call("verify_tree_greedy_from_logits", locals())
    num_steps = axes["num_steps"]
    target_predict = argmax_target_predict(logits.astype(np.float32)).reshape(axes["request"], axes["node"])
    return VerifyTreeGreedyFromLogitsOutputs(
        *verify_tree_greedy(
            candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps
        )
    )


def verify_tree_sampled_from_logits(
    candidates: Array,
    retrieve_index: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    logits: Array,
    temperature: Array,
    top_k: Array | None,
    top_p: Array | None,
    min_p: Array | None,
    threshold_single: Array,
    threshold_acc: Array,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> VerifyTreeSampledFromLogitsOutputs[Array]:
    """Accept by chance from raw logits: the composition of temperature, filters and the tree sampler.

    Parameters
    ----------
    candidates : int64 [request, node]
        Token of each node.
    retrieve_index, retrieve_next_token, retrieve_next_sibling : int64 [request, node]
        Global numbers and links, padding -1.
    uniform_samples : float32 [request, node]
        The coin with which the children of a node are tried, in [0, 1).
    uniform_samples_for_final_sampling : float32 [request]
        The coin of the last token.
    logits : float32 or bfloat16 [request*node, vocab]
        Prepared logits; -inf forbids a token.
    temperature : float32 [request]
        0 is greedy.
    top_k : int32 [request] or None
        At least 1; None keeps every token, as of the two below.
    top_p, min_p : float32 [request] or None
        Shares, top-p above 0.
    threshold_single, threshold_acc : float32 [request]
        1 and 1 leave the target's law as it is.
    num_steps : int
        Longest path, root excluded.
    strict, skip_duplicates : bool
        As in ``tree_speculative_sampling_target_only``.

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
        CYCLIC_TREE, SHARED_NODE, NODE_OUT_OF_RANGE, COIN_OUT_OF_RANGE, PROBABILITY_OUT_OF_RANGE, EMPTY_DISTRIBUTION,
        INFINITE_LOGIT, TEMPERATURE_OUT_OF_RANGE, NAN_SCORE.

    Notes
    -----
    Source: semantics B.7, B.8. Rows that the walk does not visit have no influence.
    """
    axes = check_call("verify_tree_sampled_from_logits", locals())
    num_steps, strict, skip_duplicates = axes["num_steps"], axes["strict"], axes["skip_duplicates"]
    each = axes["request"]
    filters = (
        np.full(each, EVERY_TOKEN, dtype=np.int32) if top_k is None else top_k,
        np.ones(each, dtype=np.float32) if top_p is None else top_p,
        np.zeros(each, dtype=np.float32) if min_p is None else min_p,
    )
    target_probs = target_probabilities(logits, temperature, *filters, axes["node"])
    target_probs = target_probs.reshape(axes["request"], axes["node"], axes["vocab"])
    return VerifyTreeSampledFromLogitsOutputs(
        *tree_speculative_sampling_target_only(
            candidates,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
            uniform_samples,
            uniform_samples_for_final_sampling,
            target_probs,
            np.zeros_like(target_probs),
            threshold_single,
            threshold_acc,
            num_steps,
            strict,
            skip_duplicates,
        )
    )


def chain_speculative_sampling_from_logits(
    draft_tokens: Array,
    cu_num_drafts: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    draft_logits: Array | None,
    target_logits: Array,
    temperature: Array,
    top_k: Array | None,
    top_p: Array | None,
    min_p: Array | None,
    draft_temperature: Array,
    max_num_drafts: int,
) -> ChainSpeculativeSamplingFromLogitsOutputs[Array]:
    """Accept ragged chains by rejection sampling from the visited rows of raw logits of target and draft.

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
    draft_logits : float32 or bfloat16 [drafted, draft_vocab] or None
        The row that each draft was drawn from, before its temperature; None for drafts that were not drawn, which are
        certain. Its vocabulary may have fewer tokens than the target's, or more.
    target_logits : float32 or bfloat16 [drafted+request, vocab]
        Prepared logits; -inf forbids a token. Rows ``cu_num_drafts[b]+b`` and following: one for each token of request
        b, one more than drafts.
    temperature : float32 [request]
        0 is greedy: a draft has to be the first largest logit, and no coin and no draft row is read.
    top_k : int32 [request] or None
        At least 1; None keeps every token.
    top_p, min_p : float32 [request] or None
        None keeps every token.
    draft_temperature : float32 [request]
        What the draft's logits were divided by; 0 says that a request's drafts were not drawn.
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
        COIN_OUT_OF_RANGE, TOKEN_OUT_OF_RANGE, TEMPERATURE_OUT_OF_RANGE, PROBABILITY_OUT_OF_RANGE; NAN_SCORE,
        INFINITE_LOGIT, EMPTY_DISTRIBUTION: of a row that is read.

    Notes
    -----
    Source: semantics B.9c. With p the target's row after temperature and filters and q the draft's after its own
    temperature, draft x is accepted if ``log p(x) > log coin + log q(x)`` and q(x) > 0. The first rejection draws from
    ``max(p - q, 0)``; after the end of a draft the last token is drawn from p.
    """
    return ChainSpeculativeSamplingFromLogitsOutputs(
        *_walk_chains("chain_speculative_sampling_from_logits", locals(), walk_chain_from_logits)
    )


def chain_block_verification_from_logits(
    draft_tokens: Array,
    cu_num_drafts: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    draft_logits: Array | None,
    target_logits: Array,
    temperature: Array,
    top_k: Array | None,
    top_p: Array | None,
    min_p: Array | None,
    draft_temperature: Array,
    max_num_drafts: int,
) -> ChainBlockVerificationFromLogitsOutputs[Array]:
    """Accept ragged chains, the drafts of each judged together as a block, from raw logits of target and draft.

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
    draft_logits : float32 or bfloat16 [drafted, draft_vocab] or None
        As in ``chain_speculative_sampling_from_logits``.
    target_logits : float32 or bfloat16 [drafted+request, vocab]
        As in ``chain_speculative_sampling_from_logits``.
    temperature : float32 [request]
        0 is greedy: a draft has to be the first largest logit, and no coin and no draft row is read.
    top_k : int32 [request] or None
        At least 1; None keeps every token.
    top_p, min_p : float32 [request] or None
        None keeps every token.
    draft_temperature : float32 [request]
        What the draft's logits were divided by; 0 says that a request's drafts were not drawn.
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
        COIN_OUT_OF_RANGE, TOKEN_OUT_OF_RANGE, TEMPERATURE_OUT_OF_RANGE, PROBABILITY_OUT_OF_RANGE; NAN_SCORE,
        INFINITE_LOGIT, EMPTY_DISTRIBUTION: of a row that is read.

    Notes
    -----
    Source: semantics B.9b, B.9c. The rule is that of ``chain_block_verification``, the share of the first j drafts
    being the exponential of the running sum of ``log p(x) - log q(x)``, cut at 0 after each. The rows of all drafts are
    read, those of a greedy request up to the first draft that is not its choice; the row after all drafts is read where
    all are kept.
    """
    return ChainBlockVerificationFromLogitsOutputs(
        *_walk_chains("chain_block_verification_from_logits", locals(), walk_block_from_logits)
    )


def _walk_chains(name: str, arguments: dict[str, Any], walk: Callable[[LogitChain], list[int]]) -> tuple[Array, Array]:
    """Walk the chains of a call one after another; return the output tokens and the accepted drafts of each."""
    axes = check_call(name, arguments)
    output_tokens = np.full((axes["request"], count_tokens(axes["max_num_drafts"])), -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        tokens = walk(logit_chain(arguments, request))
        output_tokens[request, : len(tokens)] = tokens
        num_accepted_drafts[request] = count_drafts(len(tokens))
    return output_tokens, num_accepted_drafts
