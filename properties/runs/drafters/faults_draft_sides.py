"""Faults of drafts that consume something else than the last hidden states, in the worker and in what it hands over."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_sides
from specsim.simulation.draft_sides.dflash import BlockSide

Spoil = Callable[[Array, int], Array]
"""Takes what the target reports [token, layer*hidden] and the number of layers; returns what the draft gets instead."""

_EXTENDED = "drafted = self._model.draft_extend(batch, pools.open(Side.DRAFT, batch.out_cache_loc))"
_STARTS = "DraftInput(batch.req_pool_indices, seq_lens, topk_p, topk_index, drafted.hidden_states, bonus_tokens)"


def upside_down(reported: Array, count: int) -> Array:
    """Return the layers in the other order."""
    layers: Array = reported.reshape(len(reported), count, -1)[:, ::-1]
    return layers.reshape(reported.shape)


def last_alone(reported: Array, count: int) -> Array:
    """Return the last layer in the places of all."""
    return np.tile(reported[:, reported.shape[1] // count * (count - 1) :], count)


def without_first(reported: Array, count: int) -> Array:
    """Return zeros in the place of the first layer."""
    return np.where(np.arange(reported.shape[1]) < reported.shape[1] // count, reported.dtype.type(0), reported)


def last_without_others(reported: Array, count: int) -> Array:
    """Return zeros in the place of all layers but the last."""
    is_last = np.arange(reported.shape[1]) >= reported.shape[1] // count * (count - 1)
    return np.where(is_last, reported, reported.dtype.type(0))


def of_the_token_before(reported: Array, count: int) -> Array:
    """Return all layers but the last as the token before has them."""
    is_last = np.arange(reported.shape[1]) >= reported.shape[1] // count * (count - 1)
    return np.where(is_last, reported, np.roll(reported, 1, axis=0))


def _extending(spoil: Spoil) -> Callable[[Function], Function]:
    """Inject other hidden states that an extend consumes."""
    instead = f"{spoil.__name__}(batch.hidden_states, len(self.facts.description.draft_layers))"
    extended = f"if batch.hidden_states is not None:\n    batch = replace(batch, hidden_states={instead})\n{_EXTENDED}"
    return edited(_EXTENDED, extended, within="StepwiseSide._catch_up", replace=replace, spoil=spoil)


def _projecting(spoil: Spoil) -> Callable[[Function], Function]:
    """Inject other features that become KV of a draft of blocks."""
    instead = f"{spoil.__name__}(features, len(self.facts.description.draft_layers))"
    return edited("features", instead, within=BlockSide._store, spoil=spoil)


def _starting_from(tokens: str) -> Callable[[Function], Function]:
    """Inject other candidates that start the next drafts."""
    starts = _STARTS.replace("topk_index", tokens)
    return edited(_STARTS, starts, within="StepwiseSide._catch_up")


_LATE_TOKENS = edited(
    f"return {_STARTS}",
    f"""
    held, rows = vars(self).setdefault("held", {{}}), batch.req_pool_indices.tolist()
    kept = [held.setdefault(row, own) for row, own in zip(rows, topk_index.tolist(), strict=True)]
    topk_index = np.array(kept, dtype=topk_index.dtype).reshape(topk_index.shape)
    return {_STARTS}
    """,
    within="StepwiseSide._catch_up",
)
_OF_THE_NEIGHBOUR = _starting_from("np.roll(topk_index, 1, axis=0)")
_MAPPED_TWICE = _starting_from(
    "topk_index if self._hot_token_id is None else self._map_hot(topk_index) % len(self._hot_token_id)"
)

MUTANTS = (
    *mutants_of_sides("prepare_block_draft", ["dflash", "dflash_v2"], (
        ("OWN-1760", "The features of the target's layers arrive in the other order.", _projecting(upside_down)),
        ("OWN-1761", "The features of the last of the layers stand in the places of all.", _projecting(last_alone)),
        ("OWN-1762", "The features of all layers but the last are lost.", _projecting(last_without_others)),
    )),
    *mutants_of_sides("map_hot_tokens", [EAGLE_V2], (
        ("OWN-2900", "Hidden states of the target's layers arrive in the other order.", _extending(upside_down)),
        ("OWN-2901", "The last of the layers stands in the places of all.", _extending(last_alone)),
        ("OWN-2902", "The lowest of the layers is left out.", _extending(without_first)),
        ("OWN-2903", "All layers but the last are those of the token before.", _extending(of_the_token_before)),
        ("OWN-2904", "Proposals are mapped to the target's ids when kept, and again when used.", _MAPPED_TWICE),
        ("OWN-2906", "A draft of hidden states starts with the candidates of the verify before.", _LATE_TOKENS),
    )),
    *mutants_of_sides("map_hot_tokens", ["standalone_v2"], (
        ("OWN-2905", "A draft of tokens alone starts with the candidates of the verify before.", _LATE_TOKENS),
        ("OWN-2907", "A draft of tokens alone starts with the candidates of its neighbour.", _OF_THE_NEIGHBOUR),
    )),
)  # fmt: skip
