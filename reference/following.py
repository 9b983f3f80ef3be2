"""What follows the output of a request: tokens that are forbidden after a node, and what was output so far."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.grammar import BITS_PER_WORD, allow_everything, is_allowed
from specsim.validation.checking import check_call


def forbid_tokens(
    draft_token: Array,
    tree_mask: Array,
    num_output_tokens: Array,
    min_tokens: Array,
    stop_mask: Array,
    recent_tokens: Array,
    bad_words: Array,
    num_draft_tokens: int,
    vocab_size: int,
) -> Array:
    """Pack the tokens that may follow each node: no stop before its time, and no end of a bad word.

    Parameters
    ----------
    draft_token : int64 [request*node]
        Token of each node, the root first.
    tree_mask : bool [request*node*node]
        Which nodes each node sees, one square a request; in the order of their numbers they are its path.
    num_output_tokens : int32 [request]
        Tokens that the request has output, its root included.
    min_tokens : int32 [request]
        Tokens before the first stop.
    stop_mask : int32 [request, ceil(vocab/32)]
        Bit ``v mod 32`` of word ``v // 32`` says that token v is a stop.
    recent_tokens : int64 [request, recent]
        The last tokens that were output, the root last; -1 where there are none.
    bad_words : int64 [request, word, recent+1]
        Sequences that must not be output, their last tokens in the last column; -1 in front of them, and everywhere
        where there is no word.
    num_draft_tokens, vocab_size : int
        Nodes of a request, tokens of the vocabulary.

    Returns
    -------
    vocab_mask : int32 [request*node, ceil(vocab/32)]
        Bit ``v mod 32`` of word ``v // 32`` allows token v; bits past the vocabulary are ones.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE, COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.4b.
    """
    axes = check_call("forbid_tokens", locals())
    num_nodes, vocab = axes["num_draft_tokens"], axes["vocab"]
    squares = tree_mask.reshape(-1, num_nodes, num_nodes)
    vocab_mask = allow_everything(axes["request"] * num_nodes, vocab)
    for request in range(axes["request"]):
        words = [word for word in bad_words[request].tolist() if word[-1] >= 0]
        for node in range(num_nodes):
            path = [
                int(draft_token[request * num_nodes + draft])
                for draft in range(1, num_nodes)
                if squares[request, node, draft]
            ]
            text = [*recent_tokens[request].tolist(), *path]
            forbidden = [token for *before, token in words if _ends_with(text, before)]
            if num_output_tokens[request] + len(path) < min_tokens[request]:
                forbidden += [token for token in range(vocab) if is_allowed(stop_mask[request], token)]
            for token in forbidden:
                bit = np.uint32(1 << (token % BITS_PER_WORD)).astype(np.int32)
                vocab_mask[request * num_nodes + node, token // BITS_PER_WORD] &= ~bit
    return vocab_mask


def commit_output_tokens(
    req_pool_indices: Array,
    token_counts: Array,
    num_output_tokens: Array,
    recent_tokens: Array,
    accept_index: Array,
    predict: Array,
    counts_all: Array,
) -> None:
    """Add the tokens that a verify committed to what each request's row knows of its output.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request; row 0 is no one's and stays as it is.
    token_counts : int32 [row, vocab]
        How often each token counts; written in place.
    num_output_tokens : int32 [row]
        Tokens of the output; written in place.
    recent_tokens : int64 [row, recent]
        The last tokens of the output, the last one last, -1 where there are none; written in place.
    accept_index : int32 [request, draft+1]
        Accepted paths, padding -1; a row of padding commits nothing.
    predict : int32 [request*node]
        Output token that follows each accepted node.
    counts_all : bool [request]
        Whether every committed token counts, and not the last one of a verify alone.

    Raises
    ------
    SpecRejection
        MALFORMED_PATH, NODE_OUT_OF_RANGE, DUPLICATE_ROW, ROW_OUT_OF_RANGE, TOKEN_OUT_OF_RANGE, COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.4b.
    """
    axes = check_call("commit_output_tokens", locals())
    for request in range(axes["request"]):
        row, path = req_pool_indices[request], accept_index[request]
        tokens = predict[path[path >= 0]].tolist()
        if row == 0 or not tokens:
            continue
        for token in tokens if counts_all[request] else tokens[-1:]:
            token_counts[row, token] += 1
        num_output_tokens[row] += len(tokens)
        text = [*recent_tokens[row].tolist(), *tokens]
        recent_tokens[row] = text[len(text) - axes["recent"] :]


def _ends_with(text: list[int], before: list[int]) -> bool:
    """Return whether a text ends with some tokens, of which those below 0 stand for any."""
    last = text[len(text) - len(before) :]
    return all(wanted in (-1, token) for token, wanted in zip(last, before, strict=True))
