"""Sampled verify: the target's own draw of every row, which drafts are compared with."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.noise import arrivals, stream_key
from specsim.reference.probabilities import target_probabilities
from specsim.validation.checking import check_call


def sample_target_predict(
    logits: Array, temperature: Array, top_k: Array, top_p: Array, min_p: Array, seeds: Array, positions: Array
) -> Array:
    """Draw a token from every row by a race on the noise of the request's seed and the token's position.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Prepared logits; -inf forbids a token.
    temperature : float32 [request]
        0 chooses the first largest logit, whatever the noise.
    top_k : int32 [request]
        At least 1.
    top_p, min_p : float32 [request]
        1 and 0 keep everything.
    seeds : int64 [request]
        0 to 2**63-1, different for requests that are to be independent.
    positions : int64 [request, node]
        Position of each node in its request; its row predicts the token after it.

    Returns
    -------
    target_predict : int64 [request, node]
        What the target draws after each node. A draft is accepted if it is the draw after its parent.

    Raises
    ------
    SpecRejection
        EMPTY_DISTRIBUTION: a row is -inf everywhere; INFINITE_LOGIT, TEMPERATURE_OUT_OF_RANGE,
        PROBABILITY_OUT_OF_RANGE, COUNT_OUT_OF_RANGE, NAN_SCORE.

    Notes
    -----
    Source: semantics Q.2, Q.3. A draw depends on its row, its seed and its position alone, so that verification by
    ``verify_tree_greedy`` emits what decoding token by token on the same noise does.
    """
    axes = check_call("sample_target_predict", locals())
    rows = target_probabilities(logits, temperature, top_k, top_p, min_p, axes["node"])
    target_predict = np.zeros(positions.shape, dtype=np.int64)
    for request, node in np.ndindex(*positions.shape):
        key = stream_key("token", int(seeds[request]), int(positions[request, node]) + 1)
        target_predict[request, node] = first_to_arrive(
            rows[request * axes["node"] + node], arrivals(key, axes["vocab"])
        )
    return target_predict


def first_to_arrive(weights: Array, exponentials: Array) -> int:
    """Return the winner of a race, in which a token of more weight arrives earlier; the lower id of a tie."""
    return int(np.argmin(race_times(weights, exponentials)))


def race_times(weights: Array, exponentials: Array) -> Array:
    """Return when each token arrives: never without weight."""
    times = np.full(len(weights), np.inf)
    return np.asarray(np.divide(exponentials, weights.astype(np.float64), out=times, where=weights > 0))
