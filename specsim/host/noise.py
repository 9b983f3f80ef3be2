"""Noise of random draws: which stream a draw reads, and the numbers of a stream.

Every draw has a key: the request's seed, what the draw is for, and where it stands. Draws of different keys are
independent; two draws of one key see the same numbers. Numbers come from Philox4x32-10, a counter-based generator, so
that a draw depends on its key alone: not on the batch, its order, or how often something was drawn before.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specsim.hashing import MASK
from specsim.rejection import Reason, SpecRejection

PURPOSES = {"draft": 0, "accept": 1, "token": 2, "final": 3}
"""What is drawn: a draft, whether a draft is accepted, an output token by a race, and one by a coin."""

OF_POSITIONS = ("token", "final")
"""Purposes of which a position has one draw, whatever drafts it: their column and epoch are 0."""

PURPOSES_OF_A_COLUMN = 8
"""Room for purposes beside the column in one word of the counter."""

ENDS = {"seed": 2**64, "position": 2**32, "column": 2**32 // PURPOSES_OF_A_COLUMN, "epoch": 2**32}
"""What each number of a key stays below: two words of the key, words of the counter, and a part of one."""

WORDS = 4
"""Numbers of one counter: token v of a race has word ``v mod 4`` of counter ``v div 4``."""

ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
STEP = 2.0**-32
"""Distance of two neighbouring uniform numbers, which are the middles of so many equal parts of (0, 1)."""


class StreamKey(NamedTuple):
    """The key of one draw: the two words of a Philox key, and the last three of its counter."""

    low: int
    high: int
    purpose: int
    position: int
    epoch: int


def stream_key(purpose: str, seed: int, position: int, column: int = 0, epoch: int = 0) -> StreamKey:
    """Return the key of a draw; draws with equal keys share their noise, all others are independent.

    Parameters
    ----------
    purpose : str
        ``draft``, ``accept``, ``token`` or ``final``.
    seed : int
        The request's own, 0 to 2**64-1.
    position : int
        Index of the drawn token in prompt and output together, below 2**32.
    column : int
        Number of the draft in its chain, or of the node in its tree, from 0 on, below 2**29.
    epoch : int
        A number that differs whenever the same position is drafted or judged again, below 2**32. Neither it nor the
        column matters to ``token`` and ``final``.

    Returns
    -------
    key : StreamKey
        Anything that can be compared, in an implementation of your own.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: another purpose, or a number outside its range.

    Notes
    -----
    Source: semantics Q.3.
    """
    if purpose not in PURPOSES:
        raise _reject("purpose", purpose, " or ".join(PURPOSES), "no other draw has a stream")
    numbers = {"seed": seed, "position": position, "column": column, "epoch": epoch}
    for what, end in ENDS.items():
        got = numbers[what]
        if not 0 <= got < end:
            raise _reject(what, got, f"0 to {end - 1}", "it is a part of the counter or key")
    if purpose in OF_POSITIONS:
        column = epoch = 0
    return StreamKey(seed & MASK, seed >> 32, PURPOSES[purpose] + PURPOSES_OF_A_COLUMN * column, position, epoch)


def stream_uniform(key: StreamKey, token: int = 0) -> float:
    """Return the uniform number in (0, 1) that a token has in the race of a key, or the coin of a key.

    Parameters
    ----------
    key : StreamKey
        As ``stream_key`` returned it.
    token : int
        Token id, below 2**34; 0 for a coin.

    Returns
    -------
    uniform : float
        The middle of one of 2**32 equal parts, exact in float64.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE: there is no such token.

    Notes
    -----
    Source: semantics Q.3.
    """
    if not 0 <= token < WORDS * 2**32:
        raise SpecRejection(
            Reason.TOKEN_OUT_OF_RANGE, "token", token, f"0 to {WORDS * 2**32 - 1}", "a stream has no more numbers"
        )
    words = philox((token // WORDS, *key[2:]), key[:2])
    return float((words[token % WORDS] + 0.5) * STEP)


def stream_uniforms(key: StreamKey, vocab_size: int) -> NDArray[np.float64]:
    """Return the uniform numbers of the tokens of a vocabulary, all at once."""
    quads = np.arange(-(-vocab_size // WORDS), dtype=np.uint64)
    words = philox((quads, *key[2:]), key[:2])
    spread = np.stack([np.broadcast_to(word, quads.shape) for word in words], axis=1).reshape(-1)[:vocab_size]
    return np.asarray((spread.astype(np.float64) + 0.5) * STEP)


def arrivals(key: StreamKey, vocab_size: int) -> NDArray[np.float64]:
    """Return when each token of a race would arrive at weight 1: exponential numbers of mean 1."""
    return -np.log1p(-stream_uniforms(key, vocab_size))


def philox(counter: tuple[Any, ...], key: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Return the four words of Philox4x32-10: of one counter in integers, or of many as arrays of uint64.

    Source: Salmon and others, Parallel random numbers: as easy as 1, 2, 3 (2011).
    """
    first, second, third, fourth = counter
    low, high = key
    for _ in range(ROUNDS):
        one, other = first * _FACTORS[0], third * _FACTORS[1]
        first, second = (other >> 32) ^ second ^ low, other & MASK
        third, fourth = (one >> 32) ^ fourth ^ high, one & MASK
        low, high = (low + _STEPS[0]) & MASK, (high + _STEPS[1]) & MASK
    return first, second, third, fourth


def _reject(what: str, got: object, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.SCALAR_OUT_OF_RANGE, what, got, expected, because)
