"""Faults of drafts that consume something else than the last hidden states, in the worker and in what it hands over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import DraftInput
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.carried import WaitingRows
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.draft_sides.stepwise import StepwiseSide
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput
from specsim.simulation.models.protocol import Model
from specsim.simulation.sides import Waiting
from specsim.simulation.worker import Worker

KV = Mapping[str, Sequence[Array]]
Spoil = Callable[[Array, int], Array]
"""Takes hidden states [token, layer, hidden] and the number of layers, and returns what the draft gets instead."""


class SpoiltHiddenStates:
    """A model whose draft gets other hidden states of the target than those of its layers."""

    def __init__(self, model: Model[Array], spoil: Spoil) -> None:
        self._model, self._spoil, self.description = model, spoil, model.description
        self.prefill, self.verify, self.draft_step = model.prefill, model.verify, model.draft_step

    def draft_extend(self, batch: DraftExtendBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Run the model's on the other hidden states."""
        reported, count = batch.hidden_states, len(self.description.draft_layers)
        if reported is not None:
            layers = reported.reshape(len(reported), count, -1)
            batch = replace(batch, hidden_states=self._spoil(layers, count).reshape(reported.shape))
        return self._model.draft_extend(batch, kv)


def upside_down(layers: Array, count: int) -> Array:
    """Return the layers in the other order."""
    return layers[:, ::-1]


def last_alone(layers: Array, count: int) -> Array:
    """Return the last layer in the places of all."""
    return np.repeat(layers[:, -1:], count, axis=1)


def _first_left_out(layers: Array, count: int) -> Array:
    spoilt = layers.copy()
    spoilt[:, 0] = 0
    return spoilt


def _of_the_neighbour(layers: Array, count: int) -> Array:
    spoilt = layers.copy()
    spoilt[:, : count - 1] = np.roll(layers[:, : count - 1], 1, axis=0)
    return spoilt


def _spoilt(spoil: Spoil) -> Callable[..., Worker]:
    def build(config: SpecConfig, model: Model[Array], sizes: PoolSizes, **named: Any) -> Worker:
        return ReferenceWorker(config, SpoiltHiddenStates(model, spoil), sizes, **named)

    return build


Change = Callable[[StepwiseSide, Mapping[str, Array], DraftInput], DraftInput]
"""Takes a draft side, what waits in rows, and what is to be kept there, and returns what is kept instead."""


def _keeping(change: Change) -> Callable[..., Worker]:
    """Return a worker that keeps something else than what its drafts proposed."""

    class Side(StepwiseSide):
        def waiting(self, is_v1: bool) -> Waiting:
            side = self

            class Rows(WaitingRows):
                def keep(self, start: DraftInput, joins: bool = False) -> None:
                    super().keep(change(side, self.carried, start), joins)

            return Rows(self.facts, self._setting.sizes)

    return partial(ReferenceWorker, make_side=Side)


def _mapped_twice(side: StepwiseSide, carried: Mapping[str, Array], start: DraftInput) -> DraftInput:
    mapped = side._map_hot(start.topk_index)
    hot = side.facts.description.hot_token_id
    return start if hot is None else replace(start, topk_index=mapped % len(hot))


def _late_tokens(side: StepwiseSide, carried: Mapping[str, Array], start: DraftInput) -> DraftInput:
    held = carried["topk_index"][start.req_pool_indices].copy()
    is_first = carried["seq_lens"][start.req_pool_indices] == 0
    return replace(start, topk_index=np.where(is_first[:, None], start.topk_index, held))


def _tokens_of_the_neighbour(side: StepwiseSide, carried: Mapping[str, Array], start: DraftInput) -> DraftInput:
    return replace(start, topk_index=np.roll(start.topk_index, 1, axis=0))


_LAYERS: tuple[tuple[str, str, Spoil], ...] = (
    ("OWN-2900", "Hidden states of the target's layers arrive in the other order.", upside_down),
    ("OWN-2901", "The last of the layers stands in the places of all.", last_alone),
    ("OWN-2902", "The lowest of the layers is left out.", _first_left_out),
    ("OWN-2903", "All layers but the last are those of the token before.", _of_the_neighbour),
)

MUTANTS = (
    *(Mutant(number, "map_hot_tokens", fault, unchanged, worker=_spoilt(spoil)) for number, fault, spoil in _LAYERS),
    Mutant("OWN-2904", "map_hot_tokens", "Proposals are mapped to the target's ids when kept, and again when used.",
           unchanged, worker=_keeping(_mapped_twice)),
    Mutant("OWN-2905", "map_hot_tokens", "A draft of tokens alone starts with the candidates of the verify before.",
           unchanged, workers={"standalone_v2": _keeping(_late_tokens)}),
    Mutant("OWN-2906", "map_hot_tokens", "A draft of hidden states starts with the candidates of the verify before.",
           unchanged, worker=_keeping(_late_tokens)),
    Mutant("OWN-2907", "map_hot_tokens", "A draft of tokens alone starts with the candidates of its neighbour.",
           unchanged, workers={"standalone_v2": _keeping(_tokens_of_the_neighbour)}),
)  # fmt: skip
