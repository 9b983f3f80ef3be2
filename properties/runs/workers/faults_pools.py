"""Faults in what a worker moves, keeps and counts of its pools: components, layers, rows, steps and writes."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.record import edits_of_pools, mutants_of_loops
from specsim.simulation.models.description import Layout
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.worker import Worker


def _taking_anything(loop: Any) -> Callable[..., Worker]:
    """Inject that a pool of unknown layout is taken for rows."""

    def build(config: Any, model: Any, *further: Any, **named: Any) -> Worker:
        known = tuple(
            replace(one, layout=Layout.SLOTS) if one.layout is Layout.UNKNOWN else one
            for one in model.description.kv_components
        )
        taken = copy(model)
        taken.description = replace(model.description, kv_components=known)
        worker: Worker = loop(config, taken, *further, **named)
        return worker

    return build


_OF_MOVES_AND_STATES = edits_of_pools(
    [EAGLE_V2],
    """
    @@ move_kv_cache in pool_of
    OWN-1400 The last component or layer is not moved.
    - layer_by_layer(sorts[Layout.SLOTS]) => layer_by_layer(sorts[Layout.SLOTS])[:-1]
    OWN-1401 The first component or layer is not moved.
    - layer_by_layer(sorts[Layout.SLOTS]) => layer_by_layer(sorts[Layout.SLOTS])[1:]
    OWN-1402 Scales are not moved.
    - description.components_of(side)
    + [one for one in description.components_of(side) if not one.name.endswith("scales")]
    OWN-1403 Data are not moved.
    - description.components_of(side)
    + [one for one in description.components_of(side) if not one.name.endswith("data")]
    OWN-1404 Of the scales, those of keys alone move.
    - description.components_of(side) => [one for one in description.components_of(side) if one.name != "value_scales"]
    OWN-1405 The indexer is not moved.
    - description.components_of(side)
    + [one for one in description.components_of(side) if one.layout is not Layout.INDEXER_PAGES]
    OWN-1406 The indexer moves without latent and rope.
    - layer_by_layer(sorts[Layout.SLOTS]) => []
    OWN-1412 Of a combined row the first half moves.
    - layer_by_layer(sorts[Layout.SLOTS])
    + [row[:, : row.shape[1] // 2] for row in layer_by_layer(sorts[Layout.SLOTS])]
    OWN-1408 Of a combined row the second half moves.
    - layer_by_layer(sorts[Layout.SLOTS])
    + [row[:, row.shape[1] // 2 :] for row in layer_by_layer(sorts[Layout.SLOTS])]
    @@ move_kv_cache in specsim.simulation.models.moving.LaidOutPool.move
    OWN-1407 The indexer moves by whole pages.
    - operations.move_indexer_cache(self.indexers, target_slots, source_slots, self.indexer_width)
    + for buffer in self.indexers:
    +     buffer[target_slots // INDEXER_PAGE_KEYS] = buffer[source_slots // INDEXER_PAGE_KEYS]
    @@ move_kv_cache in Pools.move_kv
    OWN-1409 What V2 compacts of the target does not move.
    - self.movable[side].move(target_slots, source_slots, operations)
    + if side is not Side.TARGET:
    +     self.movable[side].move(target_slots, source_slots, operations)
    OWN-1410 Each side moves the other's slots.
    - self.movable[side] => self.movable[Side.DRAFT if side is Side.TARGET else Side.TARGET]
    @@ commit_recurrent_states in Pools.commit_states
    OWN-1420 The state of the node before the last accepted one is kept.
    - steps._asdict() => {**steps._asdict(), "commit_step": np.maximum(steps.commit_step - 1, 0)}
    OWN-1421 The state of the node after the last accepted one is kept.
    - steps._asdict()
    + {
    +     **steps._asdict(),
    +     "commit_step": np.minimum(steps.commit_step + 1, verify_input.num_draft_tokens - 1),
    + }
    OWN-1422 The state after the root is kept.
    - steps._asdict() => {**steps._asdict(), "commit_step": np.zeros_like(steps.commit_step)}
    OWN-1423 The state is kept by the last node of a neighbour.
    - steps._asdict() => {**steps._asdict(), "commit_step": np.roll(steps.commit_step, 1)}
    OWN-1424 The states of the last request are not kept.
      if not self.states:
          return
    + row = np.array([*row[:1], *row[1:-1], *[-1] * (len(row) > 1)], dtype=np.int64)
    OWN-1425 Convolution state is not kept.
    - [layer for layers in self.states.values() for layer in layers]
    + [layer for layers in self.states.values() for layer in layers][:-1]
    - [layer for name in self.states for layer in scratch[name]]
    + [layer for name in self.states for layer in scratch[name]][:-1]
    OWN-1426 The first recurrent layer is not kept.
    - [layer for layers in self.states.values() for layer in layers]
    + [layer for layers in self.states.values() for layer in layers][1:]
    - [layer for name in self.states for layer in scratch[name]]
    + [layer for name in self.states for layer in scratch[name]][1:]
    @@ commit_recurrent_states in Pools.reset_states
    OWN-1427 A request starts from the state of its row's last owner.
    - state[row] = 0
    OWN-1428 A request that joins resets the states of all.
    - state[row] = 0 => state[:] = 0 if len(row) else state
    OWN-1429 A convolution state outlives the owner of its row.
    - self.states.values() => [*self.states.values()][:1]
    """,
)

_OF_WRITES = edits_of_pools(
    [EAGLE_V2],
    """
    @@ move_kv_cache in Pools.move_kv
    OWN-801 A move writes past the door.
    - with self.kv[side].writing():
    -     self.movable[side].move(target_slots, source_slots, operations)
    + self.movable[side].move(target_slots, source_slots, operations)
    @@ move_kv_cache in raise_versions
    OWN-802 No write is counted.
    - versions[slots] += 1
    OWN-803 A slot's second owner is taken for its first.
    - versions[slots] += 1 => versions[slots] = 1
    OWN-804 The last slot of a write is not counted.
    - versions[slots] += 1 => versions[slots[:-1]] += 1
    OWN-805 The slot after each written one is counted.
    - versions[slots] += 1 => versions[(slots + 1) % len(versions)] += 1
    @@ move_kv_cache in Pools.of
    OWN-806 Writes of the draft are not counted.
    - door => door if side is Side.TARGET else lambda versions, slots: None
    """,
)

MUTANTS = (
    *_OF_MOVES_AND_STATES,
    *mutants_of_loops(
        "move_kv_cache", [EAGLE_V2], [("OWN-1411", "A pool of unknown layout is moved by rows.", _taking_anything)]
    ),
    # NOTE: a worker that reads everything again and again does not ask what was counted.
    *(replace(one, worker=partial(one.worker, reads=Reads.KEPT)) for one in _OF_WRITES if one.worker),
)
