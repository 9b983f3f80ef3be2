"""Acceptance straight from raw logits: the composition of the operations that it replaces."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import VerifyTreeGreedyFromLogitsOutputs, VerifyTreeSampledFromLogitsOutputs
from specsim.reference.acceptance import tree_speculative_sampling_target_only
from specsim.reference.probabilities import target_probabilities
from specsim.reference.verify import argmax_target_predict, verify_tree_greedy
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
    top_k: Array,
    top_p: Array,
    min_p: Array,
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
    temperature, top_p, min_p : float32 [request]
        Sampling parameters; temperature 0 is greedy.
    top_k : int32 [request]
        At least 1.
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
    target_probs = target_probabilities(logits, temperature, top_k, top_p, min_p, axes["node"])
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
