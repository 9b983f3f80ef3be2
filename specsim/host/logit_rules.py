"""Rules about the logits of one request that follow its output: penalties, biases, and tokens that are forbidden."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.rejection import Reason, SpecRejection

STRONGEST = 2.0**20
"""A penalty or bias at most: a logit less a few thousand times as much is still a number (semantics B.4)."""

MOST_BAD_WORDS = 32
LONGEST_BAD_WORD = 8
"""Bounds of what is compared with the text before every node (semantics B.4b)."""

NUM_RECENT = LONGEST_BAD_WORD - 1
"""Tokens of an output that a row knows by their order (semantics B.4b)."""

NO_TOKEN = -1
"""Stands where an output has fewer, and where a bad word is shorter (semantics B.4b)."""

MOST_TOKENS = 2**30
"""A minimum length at most (semantics B.4b)."""


@dataclass(frozen=True)
class LogitRules:
    """What a request wants done to its logits, by what it has output; nothing about its prompt matters.

    Parameters
    ----------
    frequency_penalty, presence_penalty : float
        Taken away from the logit of a token for every time that it was output, and once if it was.
    repetition_penalty : float
        Positive logits of tokens that were output are divided by it, the others multiplied.
    logit_bias : tuple of (int, float)
        Tokens, each once, and what is added to their logits.
    min_tokens : int
        Tokens before the first that may stop the output: until then its stops are forbidden.
    bad_words : tuple of tuple of int
        Sequences of tokens that the output does not contain.
    is_exact : bool
        Whether every committed token counts for the penalties, and the drafts on the way to a node for that node.
        Otherwise one token a verify counts, its last, and no draft does: as engines do it, and not what decoding
        without drafts comes to.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: a penalty or bias; TOKEN_OUT_OF_RANGE: a token below 0; COUNT_OUT_OF_RANGE: a minimum, or
        the number or length of bad words; BAD_CONFIGURATION: a token with two biases.
    """

    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    bad_words: tuple[tuple[int, ...], ...] = ()
    is_exact: bool = True

    def __post_init__(self) -> None:
        for name in ("frequency_penalty", "presence_penalty"):
            _require_within(Reason.SCALAR_OUT_OF_RANGE, name, vars(self)[name], -STRONGEST, STRONGEST)
        _require_within(
            Reason.SCALAR_OUT_OF_RANGE, "repetition_penalty", self.repetition_penalty, 1 / STRONGEST, STRONGEST
        )
        _require_within(Reason.COUNT_OUT_OF_RANGE, "min_tokens", self.min_tokens, 0, MOST_TOKENS)
        _require_within(Reason.COUNT_OUT_OF_RANGE, "len(bad_words)", len(self.bad_words), 0, MOST_BAD_WORDS)
        for place, (token, bias) in enumerate(self.logit_bias):
            _require_token(f"logit_bias[{place}]", token)
            _require_within(Reason.SCALAR_OUT_OF_RANGE, f"logit_bias[{place}]", bias, -STRONGEST, STRONGEST)
        biased = [token for token, _ in self.logit_bias]
        if len(set(biased)) < len(biased):
            raise _rejected(Reason.BAD_CONFIGURATION, "tokens of logit_bias", biased, "each token once")
        for place, word in enumerate(self.bad_words):
            what = f"len(bad_words[{place}])"
            _require_within(Reason.COUNT_OUT_OF_RANGE, what, len(word), 1, LONGEST_BAD_WORD)
            for token in word:
                _require_token(f"bad_words[{place}]", token)

    @property
    def has_strengths(self) -> bool:
        """Whether logits become larger or smaller, so that they have to make a distribution."""
        penalties = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty)
        return penalties != (0.0, 0.0, 1.0) or bool(self.logit_bias)

    @property
    def forbids(self) -> bool:
        """Whether a token may be forbidden."""
        return bool(self.min_tokens or self.bad_words)

    @property
    def most_forbidden(self) -> frozenset[int]:
        """Tokens that bad words may forbid, all at once at the worst."""
        return frozenset(word[-1] for word in self.bad_words)


def ruled_logits(rules: LogitRules, stops: Collection[int], output: Sequence[int], logits: Sequence[Any]) -> list[Any]:
    """Return the logits of the token after an output, token by token as the rules say: what plain decoding does.

    Parameters
    ----------
    rules : LogitRules
        Of the request.
    stops : collection of int
        Tokens that stop its output.
    output : sequence of int
        Its tokens so far.
    logits : sequence of number
        One a token of the vocabulary; of rules with strengths they are taken as float32.

    Notes
    -----
    Source: semantics B.4, B.4b. A forbidden token has -inf. Every step rounds once to float32.
    """
    values: list[Any] = list(logits)
    if rules.has_strengths:
        values = [np.float32(value) for value in values]
        frequency, presence, repetition = map(
            np.float32, (rules.frequency_penalty, rules.presence_penalty, rules.repetition_penalty)
        )
        for token, count in Counter(output).items():
            value = values[token] - frequency * np.float32(count) - presence
            values[token] = value / repetition if value > 0 else value * repetition
        for token, bias in rules.logit_bias:
            values[token] += np.float32(bias)
    for token in forbidden_tokens(rules, stops, output):
        values[token] = -np.inf
    return [value if isinstance(value, int) else float(value) for value in values]


def forbidden_tokens(rules: LogitRules, stops: Collection[int], output: Sequence[int]) -> frozenset[int]:
    """Return the tokens that must not follow an output.

    Notes
    -----
    Source: semantics B.4b.
    """
    early = stops if len(output) < rules.min_tokens else ()
    ends = [word[-1] for word in rules.bad_words if tuple(output[len(output) - len(word) + 1 :]) == word[:-1]]
    return frozenset([*early, *ends])


def _require_token(what: str, token: int) -> None:
    if token < 0:
        raise _rejected(Reason.TOKEN_OUT_OF_RANGE, what, token, "a token of the vocabulary")


def _require_within(reason: Reason, what: str, got: float, low: float, high: float) -> None:
    if not low <= got <= high:
        raise _rejected(reason, what, got, f"{_in_words(low)} to {_in_words(high)}")


def _in_words(bound: float) -> str:
    known = {STRONGEST: "2**20", -STRONGEST: "-2**20", 1 / STRONGEST: "2**-20"}
    return known.get(bound, str(bound))


def _rejected(reason: Reason, what: str, got: object, expected: str) -> SpecRejection:
    return SpecRejection(reason, what, got, expected, "logits of a request follow it")


NO_RULES = LogitRules()
"""Rules that change nothing."""
