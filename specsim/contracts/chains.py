"""Which rows the walk of a ragged chain reads: up to the one that its last token is drawn from.

A chain that is judged as a block reads those of all its drafts, and the row after them only where it keeps them all.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.logit_rows import filters_of, log_probabilities

Arguments = Mapping[str, Any]
_MOST_EXPONENT = 700.0
"""An exponent of e whose power exceeds all that it is compared with, and is still a number."""

Walk = tuple[int, int, bool]
"""Where the drafts of a request start, where its walk ends, and whether a rejection ends it."""


def draft_rows_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``draft_probs`` are read, bool [drafted]: up to each request's first rejected draft."""
    return _draft_rows(arguments, _walks_of_probabilities(arguments))


def target_rows_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``target_probs`` are read, bool [drafted+request]."""
    return _target_rows(len(arguments["target_probs"]), _walks_of_probabilities(arguments))


def block_draft_rows_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``draft_probs`` a block reads, bool [drafted]: those of all drafts before a -1."""
    return _draft_rows(arguments, _drafts_of(arguments, "target_probs"))


def block_target_rows_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``target_probs`` a block reads, bool [drafted+request]."""
    read = np.zeros(len(arguments["target_probs"]), dtype=np.bool_)
    target, draft = arguments["target_probs"], arguments["draft_probs"]
    for request, (first, end, _) in enumerate(_drafts_of(arguments, "target_probs")):

        def ratio(place: int, token: int, request: int = request) -> float:
            offered = 1.0 if draft is None else float(draft[place, token])
            return float(target[place + request, token]) / offered if offered > 0 else 0.0

        read[first + request : end + request + _keeps_all(first, end, arguments, ratio)] = True
    return read


def draft_logits_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``draft_logits`` are read, bool [drafted]: as above, and none of certain drafts."""
    walks = [
        walk if draft_is_drawn(arguments, request) else (walk[0], walk[0], False)
        for request, walk in enumerate(_walks_of_logits(arguments))
    ]
    return _draft_rows(arguments, walks)


def target_logits_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``target_logits`` are read, bool [drafted+request]."""
    return _target_rows(len(arguments["target_logits"]), _walks_of_logits(arguments))


def block_draft_logits_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``draft_logits`` a block reads, bool [drafted]: none of certain drafts."""
    walks = [
        walk if draft_is_drawn(arguments, request) else (walk[0], walk[0], False)
        for request, walk in enumerate(_drafts_of(arguments, "target_logits"))
    ]
    return _draft_rows(arguments, walks)


def block_target_logits_read(arguments: Arguments) -> NDArray[np.bool_]:
    """Return which rows of ``target_logits`` a block reads, bool [drafted+request]; greedy requests walk."""
    read = np.zeros(len(arguments["target_logits"]), dtype=np.bool_)
    blocks, walks = _drafts_of(arguments, "target_logits"), _walks_of_logits(arguments)
    for request, ((first, end, _), (_, reached, _)) in enumerate(zip(blocks, walks, strict=True)):
        is_greedy = arguments["temperature"][request] == 0
        num_rows = reached + 1 if is_greedy else end + _keeps_all(first, end, arguments, _ratios(arguments, request))
        read[first + request : num_rows + request] = True
    return read


def draft_is_drawn(arguments: Arguments, request: int) -> bool:
    """Return whether a request's drafts from logits are judged by a law of their own: its draft rows are read."""
    warmth = float(arguments["temperature"][request]), float(arguments["draft_temperature"][request])
    return arguments["draft_logits"] is not None and 0 not in warmth


def _draft_rows(arguments: Arguments, walks: list[Walk]) -> NDArray[np.bool_]:
    read = np.zeros(len(arguments["draft_tokens"]), dtype=np.bool_)
    for first, end, is_rejected in walks:
        read[first : end + is_rejected] = True
    return read


def _target_rows(num_rows: int, walks: list[Walk]) -> NDArray[np.bool_]:
    read = np.zeros(num_rows, dtype=np.bool_)
    for request, (first, end, _) in enumerate(walks):
        read[first + request : end + request + 1] = True
    return read


def _walks_of_probabilities(arguments: Arguments) -> list[Walk]:
    coins, target, draft = arguments["uniform_samples"], arguments["target_probs"], arguments["draft_probs"]

    def accepts(request: int, place: int, token: int) -> bool:
        offered = 1.0 if draft is None else float(draft[place, token])
        return offered > 0 and float(coins[place]) * offered < float(target[place + request, token])

    return _walks(arguments, target.shape[1], accepts)


def _drafts_of(arguments: Arguments, target: str) -> list[Walk]:
    """Return where the drafts of every request start and end, as walks that reject none."""
    return _walks(arguments, arguments[target].shape[1], lambda request, place, token: True)


def _keeps_all(first: int, end: int, arguments: Arguments, ratio: Callable[[int, int], float]) -> bool:
    """Return whether the last of the drafts that are judged as a block is kept, and all others with it.

    ``ratio`` takes the place of a draft among all drafts and its token, and returns p / q, 0 where q is.
    """
    share = 1.0
    for place in range(first, end):
        share = min(share * ratio(place, int(arguments["draft_tokens"][place])), 1.0)
    return first == end or float(arguments["uniform_samples"][end - 1]) < share


def _walks_of_logits(arguments: Arguments) -> list[Walk]:
    coins, target = arguments["uniform_samples"], arguments["target_logits"]

    def accepts(request: int, place: int, token: int) -> bool:
        if arguments["temperature"][request] == 0:
            return token == int(np.argmax(target[place + request].astype(np.float32)))
        wanted, offered = _laws_of_draft(arguments, request, place, token)
        with np.errstate(divide="ignore", invalid="ignore"):
            return offered > -np.inf and wanted > float(np.log(np.float64(coins[place]))) + offered

    return _walks(arguments, target.shape[1], accepts)


def _ratios(arguments: Arguments, request: int) -> Callable[[int, int], float]:
    """Return what gives p / q of a request's drafts from logits."""

    def ratio(place: int, token: int) -> float:
        wanted, offered = _laws_of_draft(arguments, request, place, token)
        return float(np.exp(min(wanted - offered, _MOST_EXPONENT))) if offered > -np.inf else 0.0

    return ratio


def _laws_of_draft(arguments: Arguments, request: int, place: int, token: int) -> tuple[float, float]:
    """Return log p and log q of a draft from logits."""
    row, offered = arguments["target_logits"][place + request].astype(np.float32), 0.0
    if draft_is_drawn(arguments, request):
        law = log_probabilities(arguments["draft_logits"][place], float(arguments["draft_temperature"][request]))
        offered = float(law[token]) if token < len(law) else -np.inf
    return float(log_probabilities(row, *filters_of(arguments, request))[token]), offered


def _walks(arguments: Arguments, vocab_size: int, accepts: Callable[[int, int, int], bool]) -> list[Walk]:
    """Walk every request; ``accepts`` takes the request, the place among all drafts, and the token.

    The arguments may be those of a call that is refused for its offsets or tokens.
    """
    tokens = arguments["draft_tokens"]
    offsets = np.clip(arguments["cu_num_drafts"], 0, len(tokens)).tolist()
    walks = []
    for request, (first, last) in enumerate(pairwise(offsets)):
        end, is_rejected = max(first, last), False
        for place in range(first, last):
            token = int(tokens[place])
            is_token = 0 <= token < vocab_size
            is_rejected = is_token and not accepts(request, place, token)
            if is_rejected or not is_token:
                end = place
                break
        walks.append((first, end, is_rejected))
    return walks
