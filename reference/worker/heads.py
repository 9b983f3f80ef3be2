"""The heads of a model behind one interface, whichever model it is."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.assertion import require_kind
from specsim.conformance.arrays import Array
from specsim.reference.worker.sampling_rows import SamplingRows
from specsim.simulation.models.language_models import HashModel, LanguageModel


class Heads:
    """Choices of the target and proposals of the draft; every operation goes through ``call``.

    ``sampling`` says which requests are sampled, and how.
    """

    def __init__(self, model: LanguageModel, topk: int, num_rows: int, call: Callable[..., Any]) -> None:
        self.model = model
        self.sampling = SamplingRows(num_rows)
        self._topk = topk
        self._call = call

    def target_predict(self, hidden_states: Array) -> Array:
        """Return the target's greedy choice of every row."""
        model = self.model
        if isinstance(model, HashModel):
            logits = self._call(
                "hash_target_logits", hidden_states=hidden_states, vocab_size=model.vocab_size, seed=model.seed
            )
        else:
            logits = self._call("text_target_logits", hidden_states=hidden_states, ngram_counts=model.target_counts)
        predicted: Array = self._call("argmax_target_predict", logits=logits)
        return predicted

    def sampling_logits(self, hidden_states: Array, target_predict: Array, is_greedy: Array) -> Array:
        """Return float32 logits of every row; those of greedy requests have the greedy choice alone on top."""
        model = require_kind("model of sampled requests", self.model, HashModel)
        logits = self._call(
            "hash_sampling_logits", hidden_states=hidden_states, vocab_size=model.vocab_size, seed=model.seed
        )
        is_chosen = np.arange(model.vocab_size) == target_predict[:, None]
        chosen: Array = np.where(is_greedy[:, None], np.where(is_chosen, 0, -1), logits).astype(np.float32)
        return chosen

    def propose(self, hidden_states: Array, context: Array, depth: int) -> tuple[Array, Array]:
        """Return probabilities and draft-vocabulary ids of the candidates of a depth."""
        model = self.model
        if isinstance(model, HashModel):
            probabilities = self._call(
                "hash_draft_probabilities",
                hidden_states=hidden_states,
                context=context,
                vocab_size=model.vocab_size,
                seed=model.seed,
                agreement=model.agreement_at(depth),
            )
        else:
            probabilities = self._call(
                "text_draft_probabilities",
                hidden_states=hidden_states,
                context=context,
                ngram_counts=model.draft_counts,
            )
        if model.hot_token_id is not None:
            probabilities = probabilities[:, model.hot_token_id]
        topk_p, topk_index = self._call("fast_topk", values=probabilities, k=self._topk)
        return topk_p, topk_index

    def map_hot(self, topk_index: Array) -> Array:
        """Return target-vocabulary ids."""
        if self.model.hot_token_id is None:
            return topk_index
        mapped: Array = self._call("map_hot_tokens", topk_index=topk_index, hot_token_id=self.model.hot_token_id)
        return mapped
