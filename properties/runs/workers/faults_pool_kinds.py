"""Faults in what a worker moves of a pool, and in which recurrent state it keeps: components, layers, rows, steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from specsim.config import INDEXER_PAGE_KEYS, PoolSizes
from specsim.properties.mutants.record import Mutant, Named, unchanged
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.description import KVComponent, Layout, ModelDescription, Side
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import LaidOutPool, Pool, pool_of
from specsim.simulation.models.protocol import Model
from specsim.simulation.worker import Worker

Array = Any
MakePool = Callable[[ModelDescription, Side, Pools], Pool[Array]]
KindOfPools = type[Pools]


def _moving(make_pool: MakePool, sides: Sequence[Side] = tuple(Side)) -> Callable[..., Worker]:
    """Return what builds a worker whose sides move as given."""

    def make_pools(description: ModelDescription, sizes: PoolSizes, reads: Reads) -> Pools:
        pools = Pools.of(description, sizes, reads)
        faulty = {side: make_pool(description, side, pools) for side in sides}
        return replace(pools, movable={**pools.movable, **faulty})

    return partial(ReferenceWorker, make_pools=make_pools)


def _without(is_left: Callable[[KVComponent], bool]) -> MakePool:
    """Leave components where they were."""

    def make_pool(description: ModelDescription, side: Side, pools: Pools) -> Pool[Array]:
        left = tuple(one for one in description.kv_components if not is_left(one))
        return pool_of(replace(description, kv_components=left), side, pools.kv[side])

    return make_pool


def _with_rows(choose: Callable[[Sequence[Array]], Sequence[Array]]) -> MakePool:
    """Move a part of what has a row a slot."""

    def make_pool(description: ModelDescription, side: Side, pools: Pools) -> Pool[Array]:
        pool = pool_of(description, side, pools.kv[side])
        return replace(pool, rows=choose(pool.rows)) if isinstance(pool, LaidOutPool) else pool

    return make_pool


class _WholePages:
    """A pool whose indexer entries move by the page."""

    def __init__(self, description: ModelDescription, side: Side, pools: Pools) -> None:
        self._kv = pools.kv[side]
        components = description.components_of(side)
        self._paged = [one.name for one in components if one.layout is Layout.INDEXER_PAGES]
        self._pool = _without(lambda one: one.layout is Layout.INDEXER_PAGES)(description, side, pools)

    def move(self, target_slots: Array, source_slots: Array, operations: Any) -> None:
        """Copy rows by slot, and pages of the indexer whole."""
        self._pool.move(target_slots, source_slots, operations)
        for name in self._paged:
            for buffer in self._kv[name]:
                buffer[target_slots // INDEXER_PAGE_KEYS] = buffer[source_slots // INDEXER_PAGE_KEYS]


class _Unmoved:
    """A pool that says nothing and moves nothing."""

    def move(self, target_slots: Array, source_slots: Array, operations: Any) -> None:
        """Do nothing."""


def _unmoved(description: ModelDescription, side: Side, pools: Pools) -> Pool[Array]:
    return _Unmoved()


def _other_side(description: ModelDescription, side: Side, pools: Pools) -> Pool[Array]:
    return pools.movable[Side.DRAFT if side is Side.TARGET else Side.TARGET]


class _TakenForRows:
    """A model whose every component is said to have a row a slot."""

    def __init__(self, model: Model[Array]) -> None:
        self.prefill, self.verify = model.prefill, model.verify
        self.draft_step, self.draft_extend = model.draft_step, model.draft_extend
        known = tuple(
            replace(one, layout=Layout.SLOTS) if one.layout is Layout.UNKNOWN else one
            for one in model.description.kv_components
        )
        self.description = replace(model.description, kv_components=known)


def _takes_anything(config: Any, model: Model[Array], sizes: PoolSizes) -> Worker:
    return ReferenceWorker(config, _TakenForRows(model), sizes)


def _keeping(kind: KindOfPools) -> Callable[..., Worker]:
    """Return what builds a worker whose recurrent states are kept as a kind of pools does."""
    return partial(ReferenceWorker, make_pools=kind.of)


@dataclass(frozen=True)
class _Committing:
    """The operations that keep states, the second of which gets other arguments."""

    operations: Any
    change: Callable[[Named], None]

    def get_recurrent_steps(self, *args: Any, **kwargs: Any) -> Any:
        """Find the steps."""
        return self.operations.get_recurrent_steps(*args, **kwargs)

    def commit_recurrent_states(self, **arguments: Any) -> None:
        """Keep other states."""
        self.change(arguments)
        self.operations.commit_recurrent_states(**arguments)


def _committing(change: Callable[[Named], None]) -> Callable[..., Worker]:
    """Return what builds a worker that commits something else; ``change`` edits the arguments by name."""

    class Faulty(Pools):
        def commit_states(self, *arguments: Any) -> None:
            *others, operations = arguments
            commit: Callable[..., None] = super().commit_states
            commit(*others, _Committing(operations, change))

    return _keeping(Faulty)


def _one_early(arguments: Named) -> None:
    arguments["commit_step"] = np.maximum(arguments["commit_step"] - 1, 0)


def _one_late(arguments: Named) -> None:
    arguments["commit_step"] = np.minimum(arguments["commit_step"] + 1, arguments["step_buffers"][0].shape[1] - 1)


def _of_the_root(arguments: Named) -> None:
    arguments["commit_step"] = np.zeros_like(arguments["commit_step"])


def _of_the_neighbour(arguments: Named) -> None:
    arguments["commit_step"] = np.roll(arguments["commit_step"], 1)


def _last_request_lost(arguments: Named) -> None:
    slots = arguments["state_slots"].copy()
    slots[1:][-1:] = -1
    arguments["state_slots"] = slots


def _only(places: slice) -> Callable[[Named], None]:
    """Commit some of the buffers: those of the layers come first, that of the convolution last."""

    def change(arguments: Named) -> None:
        for name in ("state_buffers", "step_buffers"):
            arguments[name] = arguments[name][places]

    return change


class _OfTheOwnerBefore(Pools):
    def reset_states(self, row: Array) -> None:
        """Leave what lies there."""


class _AllReset(Pools):
    def reset_states(self, row: Array) -> None:
        if len(row):
            super().reset_states(np.arange(len(self.req_to_token)))


class _SumsAlone(Pools):
    def reset_states(self, row: Array) -> None:
        Pools.reset_states(replace(self, states=dict(list(self.states.items())[:1])), row)


_PLANTED: tuple[tuple[str, str, Callable[..., Worker]], ...] = (
    ("OWN-1400", "The last component or layer is not moved.", _moving(_with_rows(lambda rows: rows[:-1]))),
    ("OWN-1401", "The first component or layer is not moved.", _moving(_with_rows(lambda rows: rows[1:]))),
    ("OWN-1402", "Scales are not moved.", _moving(_without(lambda one: one.name.endswith("scales")))),
    ("OWN-1403", "Data are not moved.", _moving(_without(lambda one: one.name.endswith("data")))),
    ("OWN-1404", "Of the scales, those of keys alone move.", _moving(_without(lambda one: one.name == "value_scales"))),
    ("OWN-1405", "The indexer is not moved.", _moving(_without(lambda one: one.layout is Layout.INDEXER_PAGES))),
    ("OWN-1406", "The indexer moves without latent and rope.", _moving(_with_rows(lambda rows: []))),
    ("OWN-1407", "The indexer moves by whole pages.", _moving(_WholePages)),
    (
        "OWN-1412",
        "Of a combined row the first half moves.",
        _moving(_with_rows(lambda rows: [row[:, : row.shape[1] // 2] for row in rows])),
    ),
    (
        "OWN-1408",
        "Of a combined row the second half moves.",
        _moving(_with_rows(lambda rows: [row[:, row.shape[1] // 2 :] for row in rows])),
    ),
    ("OWN-1409", "What V2 compacts of the target does not move.", _moving(_unmoved, [Side.TARGET])),
    ("OWN-1410", "Each side moves the other's slots.", _moving(_other_side)),
    ("OWN-1411", "A pool of unknown layout is moved by rows.", _takes_anything),
)
"""In what moves."""

_OF_STATES: tuple[tuple[str, str, Callable[..., Worker]], ...] = (
    ("OWN-1420", "The state of the node before the last accepted one is kept.", _committing(_one_early)),
    ("OWN-1421", "The state of the node after the last accepted one is kept.", _committing(_one_late)),
    ("OWN-1422", "The state after the root is kept.", _committing(_of_the_root)),
    ("OWN-1423", "The state is kept by the last node of a neighbour.", _committing(_of_the_neighbour)),
    ("OWN-1424", "The states of the last request are not kept.", _committing(_last_request_lost)),
    ("OWN-1425", "Convolution state is not kept.", _committing(_only(slice(-1)))),
    ("OWN-1426", "The first recurrent layer is not kept.", _committing(_only(slice(1, None)))),
    ("OWN-1427", "A request starts from the state of its row's last owner.", _keeping(_OfTheOwnerBefore)),
    ("OWN-1428", "A request that joins resets the states of all.", _keeping(_AllReset)),
    ("OWN-1429", "A convolution state outlives the owner of its row.", _keeping(_SumsAlone)),
)
"""In which recurrent state is kept."""

MUTANTS = tuple(
    Mutant(number, operation, summary, unchanged, worker)
    for operation, planted in (("move_kv_cache", _PLANTED), ("commit_recurrent_states", _OF_STATES))
    for number, summary, worker in planted
)
