"""Faults in what a draft of blocks gets of the layers of the target: another order, or not all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.host.dflash import DflashParameters
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.properties.runs.drafters.faults_draft_sides import Spoil, SpoiltHiddenStates, last_alone, upside_down
from specsim.simulation.loops import loop_of
from specsim.simulation.models.block import BlockModel, FeatureBatch
from specsim.simulation.worker import Worker

KV = Mapping[str, Sequence[Array]]


class SpoiltFeatures(SpoiltHiddenStates):
    """A model whose draft of blocks gets other features than those of its layers."""

    def __init__(self, model: BlockModel[Array], spoil: Spoil) -> None:
        super().__init__(model, spoil)
        self._blocks, self.draft_block = model, model.draft_block

    def project_features(self, batch: FeatureBatch[Array], kv: KV) -> None:
        """Project the other ones."""
        count = len(self.description.draft_layers)
        layers = batch.features.reshape(len(batch.features), count, -1)
        spoilt = self._spoil(layers, count).reshape(batch.features.shape)
        self._blocks.project_features(replace(batch, features=spoilt), kv)


def _first_lost(layers: Array, count: int) -> Array:
    spoilt = layers.copy()
    spoilt[:, : count - 1] = 0
    return spoilt


def _spoilt(
    spoil: Spoil, loop: Callable[..., Worker], parameters: DflashParameters, model: Any, sizes: PoolSizes, **named: Any
) -> Worker:
    return loop(parameters, SpoiltFeatures(model, spoil), sizes, **named)


_FAULTS: tuple[tuple[str, str, Spoil], ...] = (
    ("OWN-1760", "The features of the target's layers arrive in the other order.", upside_down),
    ("OWN-1761", "The features of the last of the layers stand in the places of all.", last_alone),
    ("OWN-1762", "The features of all layers but the last are lost.", _first_lost),
)

MUTANTS = tuple(
    Mutant(
        number,
        "prepare_block_draft",
        summary,
        unchanged,
        workers={
            "dflash": partial(_spoilt, spoil, loop_of("dflash")),
            "dflash_v2": partial(_spoilt, spoil, loop_of("dflash_v2")),
        },
    )
    for number, summary, spoil in _FAULTS
)
