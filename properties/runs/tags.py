"""What the KV of a text and the recurrent states after it have to be."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specsim.assertion import require
from specsim.hashing import digest
from specsim.simulation.memory import Memory
from specsim.simulation.models import pool_kinds
from specsim.simulation.models.ground_truth import Prefix, heard
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request

Tags = list[list[list[int]]]


class ExpectedTags:
    """The tags of a text, int64 [buffer, position, word] of the target and of the draft; the text only grows."""

    def __init__(self, model: HashModel, width: int) -> None:
        layers = (model.num_target_layers, model.num_draft_layers)
        self.kinds = (model.target_pool, model.draft_pool)
        self._model, self._prefix = model, Prefix(model)
        self._draft_folds = [0] * model.num_draft_layers
        self._num_known = 0
        self.tags = [np.zeros((2 * count, width, pool_kinds.TAG_WORDS), dtype=np.int64) for count in layers]

    @property
    def folds(self) -> list[int]:
        """What the layers of the target have added up over all that is known."""
        return self._prefix.folds

    def heard(self, text: Sequence[int]) -> list[int]:
        """Return a text as the target hears it."""
        return [heard(self._model, token, position) for position, token in enumerate(text)]

    def grow(self, text: Sequence[int]) -> None:
        """Add what a text has beyond what is known; its last token has no entry, but the draft's last one read it."""
        for position in range(self._num_known, len(text) - 1):
            self._add(position, text[position], text[position + 1])
        self._num_known = max(self._num_known, len(text) - 1)

    def _add(self, position: int, token: int, following: int) -> None:
        target, draft = self.tags
        prefix = self._prefix
        token = heard(self._model, token, position)
        prefix.append(token)
        for layer in range(len(prefix.folds)):
            context = 0 if layer == 0 else prefix.folds[layer - 1]
            for component in (2 * layer, 2 * layer + 1):
                target[component, position] = (position, token, context, component)
        context = digest([*prefix.folds, prefix.context_word])
        for layer in range(len(self._draft_folds)):
            for component in (2 * layer, 2 * layer + 1):
                entry = [position, following, context, component]
                draft[component, position] = entry
                self._draft_folds[layer] += digest(entry)
            context = self._draft_folds[layer] & 0xFFFFFFFF


def expected_tags(model: HashModel, tokens: Sequence[int]) -> tuple[Tags, Tags]:
    """Return the target and draft tags, [buffer][position], that a fresh prefill of tokens writes.

    The last token is the bonus token: it has no target entry, and it is what the last draft entry consumed.
    """
    expected = ExpectedTags(model, len(tokens) - 1)
    expected.grow(tokens)
    target, draft = (tags.tolist() for tags in expected.tags)
    return target, draft


def states_after(model: HashModel, tokens: Sequence[int]) -> list[list[int]]:
    """Return the recurrent states, [buffer], after some tokens: the folds of the layers, and the convolution's."""
    width = pool_kinds.CONVOLUTION_WIDTH
    return [*([fold] for fold in Prefix(model, tokens).folds), [*([0] * width), *tokens][-width:]]


def check_tags_at(pool: str, entries: Sequence[Any], request: Request, expected: Tags) -> None:
    """Raise AssertionError unless the entries of a request's committed positions are the tags."""
    for component, (read, tags) in enumerate(zip(entries, expected, strict=True)):
        for position, (one, other) in enumerate(zip(read.tolist(), tags, strict=True)):
            require(one == other, f"{pool}[{component}] of request {request.request_id} at {position}", one, other)


def check_window_tags(
    state: Mapping[str, Any], request: Request, memory: Memory, is_queued: bool, text: Sequence[int], when: str = ""
) -> None:
    """Raise AssertionError unless the positions that a request's next forward sees through a window hold their tags.

    Where writes may be queued, the worker perhaps does not know yet which SWA slots these have.
    """
    names = (pool_kinds.SWA_KEYS, pool_kinds.SWA_VALUES)
    for position in range(max(0, request.num_committed - memory.window + 1), request.num_committed):
        slot = request.slots[position]
        (reported,) = (0,) if memory.swa is None else memory.swa.swa_slots([slot])
        there = reported if is_queued else int(state["full_to_swa"][slot])
        what = f"request {request.request_id} at {position}{when}"
        require(there == reported > 0, f"SWA slot of {what}", there, reported or "one")
        for component, (name, buffer) in enumerate(zip(names, state["swa_kv"], strict=True)):
            got, expected = buffer[there].tolist(), [position, text[position], 0, pool_kinds.SWA_COMPONENT + component]
            require(got == expected, f"{name} of {what}", got, expected)
