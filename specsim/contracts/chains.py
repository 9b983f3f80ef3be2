"""Which rows of probabilities the walk of a ragged chain reads: up to the one that its last token is drawn from."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


def draft_rows_read(arguments: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which rows of ``draft_probs`` are read, bool [drafted]: up to each request's first rejected draft."""
    read = np.zeros(len(arguments["draft_tokens"]), dtype=np.bool_)
    for first, end, is_rejected in _walks(arguments):
        read[first : end + is_rejected] = True
    return read


def target_rows_read(arguments: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which rows of ``target_probs`` are read, bool [drafted+request]."""
    read = np.zeros(len(arguments["target_probs"]), dtype=np.bool_)
    for request, (first, end, _) in enumerate(_walks(arguments)):
        read[first + request : end + request + 1] = True
    return read


def _walks(arguments: Mapping[str, Any]) -> list[tuple[int, int, bool]]:
    """Return, of every request, where its drafts start, where its walk ends, and whether a rejection ends it.

    The arguments may be those of a call that is refused for its offsets or tokens.
    """
    tokens, coins = arguments["draft_tokens"], arguments["uniform_samples"].astype(np.float64)
    target, draft = arguments["target_probs"], arguments["draft_probs"]
    offsets = np.clip(arguments["cu_num_drafts"], 0, len(tokens)).tolist()
    walks = []
    for request, (first, last) in enumerate(pairwise(offsets)):
        end, is_rejected = max(first, last), False
        for place in range(first, last):
            token = int(tokens[place])
            is_token = 0 <= token < target.shape[1]
            offered = 1.0 if draft is None or not is_token else float(draft[place, token])
            is_rejected = is_token and not (
                offered > 0 and coins[place] * offered < float(target[place + request, token])
            )
            if is_rejected or not is_token:
                end = place
                break
        walks.append((first, end, is_rejected))
    return walks
