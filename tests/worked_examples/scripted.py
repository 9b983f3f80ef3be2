"""A model that says what a script says, that of K.1 unless it gets another, and writes down what it is asked.

Its target and its draft answer from tables, whatever they read; a KV entry is ``1000 * token + position``, so that
a pool tells which token's entry lies in a slot.
"""

from dataclasses import dataclass, replace

import numpy as np

from specsim.simulation.models.batches import DraftOutput, TargetOutput
from specsim.simulation.models.description import DraftSource, KVComponent, ModelDescription, Side
from tests.worked_examples.numbers import BONUS, STEP_IDS, STEP_P, TARGET_PREDICT, f32, i64

VOCAB_SIZE = 100


@dataclass(frozen=True)
class Script:
    """Per step and row of the draft probabilities and tokens, per request the first token, per node the choice."""

    step_p: list
    step_ids: list
    bonus: list
    target_predict: list

    def proposals(self, step):
        """Return float32 [row, vocab] with the probabilities of a step."""
        probabilities = np.zeros((len(self.step_p[step]), VOCAB_SIZE), dtype=np.float32)
        np.put_along_axis(probabilities, i64(self.step_ids[step]), f32(self.step_p[step]), axis=1)
        return probabilities


K1 = Script(STEP_P, STEP_IDS, BONUS, TARGET_PREDICT)


def choices(tokens):
    """Return float32 [row, vocab] in which each row's greedy choice is a token."""
    return np.eye(VOCAB_SIZE, dtype=np.float32)[np.ravel(tokens)]


class ScriptedModel:
    """A model on NumPy arrays, or on tensors if ``to_array`` makes them.

    By forward, ``asked`` holds its batches and ``found`` what was in the cache before each of them; ``cache_of`` looks
    into the cache that a forward writes.
    """

    def __init__(self, to_array=np.asarray, to_numpy=np.asarray, arrays="numpy", script=K1):
        self._to_array, self._to_numpy = to_array, to_numpy
        self._script = script
        self.asked = {"prefill": [], "verify": [], "draft_step": [], "draft_extend": []}
        self.found = {forward: [] for forward in self.asked}
        self._caches = {}
        self.description = ModelDescription(
            name="scripted",
            arrays=arrays,
            vocab_size=VOCAB_SIZE,
            kv_components=tuple(KVComponent("entry", (1,), "int64", 1, side) for side in Side),
            hidden_width=1,
            hidden_dtype="int64",
            draft_source=DraftSource.HIDDEN,
            draft_hidden_width=1,
            is_capturable=False,
        )

    def prefill(self, batch, kv, states):
        asked = self._take("prefill", batch, kv)
        return self._target(choices(self._script.bonus), len(asked.input_ids))

    def verify(self, batch, kv, states, scratch):
        asked = self._take("verify", batch, kv)
        return self._target(choices(self._script.target_predict), len(asked.input_ids))

    def draft_step(self, batch, kv):
        asked = self._take("draft_step", batch, kv)
        return self._draft(self._script.proposals(asked.depth - 1))

    def draft_extend(self, batch, kv):
        asked = self._take("draft_extend", batch, kv)
        return self._draft(self._script.proposals(0)[: len(asked.select)])

    def cache_of(self, forward):
        return self._to_numpy(self._caches[forward]).copy()

    def _target(self, logits, num_tokens):
        hidden = i64(range(num_tokens)).reshape(-1, 1)
        return TargetOutput(self._to_array(logits), self._to_array(hidden))

    def _draft(self, probabilities):
        hidden = i64(range(len(probabilities))).reshape(-1, 1)
        return DraftOutput(self._to_array(probabilities), self._to_array(hidden))

    def _take(self, forward, batch, kv):
        names = ("input_ids", "positions", "out_cache_loc", "hidden_states", "select")
        given = {name: vars(batch).get(name) for name in names if name in vars(batch)}
        asked = replace(
            batch, **{name: None if one is None else self._to_numpy(one).copy() for name, one in given.items()}
        )
        self.asked[forward].append(asked)
        (buffer,) = kv["entry"]
        self._caches[forward] = buffer
        self.found[forward].append(self.cache_of(forward))
        buffer[batch.out_cache_loc] = (1000 * batch.input_ids + batch.positions)[:, None]
        return asked
