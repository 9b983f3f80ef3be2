"""Plain autoregressive decoding of the toy models, one token of one text at a time: no KV cache, no batch, no draft.

The forwards of the reference and of the GPU path compute the same words from tagged KV.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from specsim.assertion import require_kind
from specsim.hashing import MASK, digest
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel

LanguageModel = HashModel | TextModel

FIRST_TOKEN = 0
"""What the target of a draft that consumes tokens alone hears at the first position of every text."""


class Prefix:
    """The state of a model after a token prefix, first after ``tokens``: one fold a layer, and the context word."""

    def __init__(self, model: LanguageModel, tokens: Iterable[int] = ()) -> None:
        self._model = model
        self._length = 0
        self.folds = [0] * model.num_target_layers
        self.context_word = 0
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        """Add one token."""
        token, below = heard(self._model, token, self._length), 0
        for layer in range(len(self.folds)):
            for component in (2 * layer, 2 * layer + 1):
                self.folds[layer] += digest([self._length, token, below, component])
            self.folds[layer] &= MASK
            below = self.folds[layer]
        self.context_word = ((self.context_word << 8) + token) & MASK
        self._length += 1

    def next_logits(self) -> list[int]:
        """Return the model's logits of the next token."""
        return self._model.next_logits(self.folds, self.context_word)

    def next_sampling_logits(self) -> list[int]:
        """Return the logits that the next token is sampled from; the text model has none."""
        return require_kind("model", self._model, HashModel).next_sampling_logits(self.folds)

    def next_token(self) -> int:
        """Return the model's greedy choice."""
        return greedy_choice(self.next_logits())


def heard(model: LanguageModel, tokens: Any, positions: Any) -> Any:
    """Return tokens as the target of a model hears them at their positions: ints, or arrays of either library.

    A draft that consumes tokens alone never sees the first of a text, as its inputs are those of the positions before
    them (semantics D.7); what a target says may not depend on that token, if such a draft shall agree with it.
    """
    return tokens * (positions > 0) if model.draft_source is DraftSource.TOKENS else tokens


def greedy_choice(logits: Sequence[float], tokens: Sequence[int] | None = None) -> int:
    """Return the token of the largest logit, the lowest id among equals; only among ``tokens`` if they are given."""
    if tokens is None:
        # NOTE: of equal ones max returns the first.
        return max(range(len(logits)), key=logits.__getitem__)
    return max(tokens, key=lambda token: (logits[token], -token))


def greedy_decode(
    model: LanguageModel, prompt: Sequence[int], max_new_tokens: int, eos_token: int | None = None
) -> list[int]:
    """Decode one prompt token by token: the output that speculation must not change.

    Returns
    -------
    output : list of int
        At most ``max_new_tokens`` tokens, ending with ``eos_token`` if it occurs.
    """
    prefix = Prefix(model, prompt)
    output: list[int] = []
    while len(output) < max_new_tokens:
        token = prefix.next_token()
        output.append(token)
        if token == eos_token:
            break
        prefix.append(token)
    return output
