"""Log-probabilities: what is reported to users about the tokens that are output."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import GatherOutputLogprobsOutputs
from specsim.validation.checking import check_call

LEAST_FINITE = float(np.finfo(np.float32).min)


def gather_output_logprobs(
    logits: Array,
    accept_index: Array,
    predict: Array,
    temperature: Array | None,
    token_ids: Array,
    num_top: int,
    is_clamped: bool = True,
) -> GatherOutputLogprobsOutputs[Array]:
    """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Prepared logits, before they are compacted; rows off the accepted paths are not read.
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes, padding -1; cut where a request has ended.
    predict : int32 [request*node]
        Output token that follows each accepted node.
    temperature : float32 [request] or None
        0 counts as 1; without it all do, which gives what users call raw log-probabilities.
    token_ids : int64 [request, listed]
        Tokens that a request asks about, padding -1; none of them is [request, 0].
    num_top : int
        How many of the most probable tokens to tell.
    is_clamped : bool
        Whether what is impossible has the least finite number in place of -inf.

    Returns
    -------
    output_logprobs : float32 [request*(draft+1)]
        Of the j-th output token of request b in entry ``b*(draft+1)+j``; entries past the path are undefined.
    top_logprobs : float32 [request*(draft+1), top]
        Of the most probable tokens, the best first.
    top_tokens : int64 [request*(draft+1), top]
        Which those are; of equal logits the lower token comes first.
    listed_logprobs : float32 [request*(draft+1), listed]
        Of the listed tokens; 0 for padding.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, MALFORMED_PATH, TOKEN_OUT_OF_RANGE, TEMPERATURE_OUT_OF_RANGE, INFINITE_LOGIT, NAN_SCORE;
        EMPTY_DISTRIBUTION: a row is -inf everywhere.

    Notes
    -----
    Source: semantics C.8. Everything is computed in float64 and rounded once.
    """
    axes = check_call("gather_output_logprobs", locals())
    width, num_entries = axes["draft"] + 1, accept_index.size
    output_logprobs = np.zeros(num_entries, dtype=np.float32)
    top_logprobs = np.zeros((num_entries, axes["top"]), dtype=np.float32)
    top_tokens = np.zeros((num_entries, axes["top"]), dtype=np.int64)
    listed_logprobs = np.zeros((num_entries, axes["listed"]), dtype=np.float32)
    for entry, node in enumerate(accept_index.reshape(-1).tolist()):
        if node < 0:
            continue
        request = entry // width
        row = log_softmax(logits[node], 1.0 if temperature is None else float(temperature[request]))
        row = rounded(row, is_clamped)
        output_logprobs[entry] = row[predict[node]]
        best_first = np.argsort(-logits[node].astype(np.float64), kind="stable")
        for place, token in enumerate(best_first[: axes["top"]]):
            top_logprobs[entry, place], top_tokens[entry, place] = row[token], token
        for place, token in enumerate(token_ids[request]):
            if token >= 0:
                listed_logprobs[entry, place] = row[token]
    return GatherOutputLogprobsOutputs(output_logprobs, top_logprobs, top_tokens, listed_logprobs)


def log_softmax(logits: Array, temperature: float) -> Array:
    """Return float64 [vocab], the logarithms of a row's probabilities; temperature 0 counts as 1."""
    scaled = (logits.astype(np.float64) - float(logits.max())) / (temperature or 1.0)
    logarithms: Array = scaled - np.log(np.exp(scaled).sum())
    return logarithms


def rounded(logprobs: Array, is_clamped: bool) -> Array:
    """Return them in float32, where one that is too small for it is -inf, or the least finite number."""
    with np.errstate(over="ignore"):
        single: Array = logprobs.astype(np.float32)
    return np.maximum(single, np.float32(LEAST_FINITE)) if is_clamped else single
