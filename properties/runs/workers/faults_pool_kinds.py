"""Faults in what a worker moves of a pool, and in which recurrent state it keeps: components, layers, rows, steps."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.config import INDEXER_PAGE_KEYS, PoolSizes
from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Mutant, mutants_of_loops, unchanged, with_pools
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.description import KVComponent, Layout, ModelDescription, Side
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import LaidOutPool, Pool, pool_of
from specsim.simulation.models.protocol import Model
from specsim.simulation.worker import Worker

Array = Any
MakePool = Callable[[ModelDescription, Side, Pools], Pool[Array]]


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


def _stepping(commit_step: str) -> Function:
    """Inject other steps whose states are kept."""
    changed = f"{{**steps._asdict(), 'commit_step': {commit_step}}}"
    return with_pools(edited("steps._asdict()", changed, within="Pools.commit_states"))


def _keeping(places: str) -> Function:
    """Inject that some buffers are kept alone: those of the layers come first, that of the convolution last."""
    states = "[layer for layers in self.states.values() for layer in layers]"
    steps = "[layer for name in self.states for layer in scratch[name]]"
    return with_pools(edited(states, f"{states}[{places}]", steps, f"{steps}[{places}]", within="Pools.commit_states"))


def _resetting(old: str, new: str) -> Function:
    return with_pools(edited(old, new, within="Pools.reset_states"))


_NO_STATES = "if not self.states:\n    return"
_LAST_REQUEST_IS_LOST = with_pools(
    edited(
        _NO_STATES,
        f"{_NO_STATES}\nrow = np.array([*row[:1], *row[1:-1], *[-1] * (len(row) > 1)], dtype=np.int64)",
        within="Pools.commit_states",
    )
)


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

_OF_STATES = (
    ("OWN-1420", "The state of the node before the last accepted one is kept.",
     _stepping("np.maximum(steps.commit_step - 1, 0)")),
    ("OWN-1421", "The state of the node after the last accepted one is kept.",
     _stepping("np.minimum(steps.commit_step + 1, verify_input.num_draft_tokens - 1)")),
    ("OWN-1422", "The state after the root is kept.", _stepping("np.zeros_like(steps.commit_step)")),
    ("OWN-1423", "The state is kept by the last node of a neighbour.", _stepping("np.roll(steps.commit_step, 1)")),
    ("OWN-1424", "The states of the last request are not kept.", _LAST_REQUEST_IS_LOST),
    ("OWN-1425", "Convolution state is not kept.", _keeping(":-1")),
    ("OWN-1426", "The first recurrent layer is not kept.", _keeping("1:")),
    ("OWN-1427", "A request starts from the state of its row's last owner.", _resetting("state[row] = 0", "")),
    ("OWN-1428", "A request that joins resets the states of all.",
     _resetting("state[row] = 0", "state[:] = 0 if len(row) else state")),
    ("OWN-1429", "A convolution state outlives the owner of its row.",
     _resetting("self.states.values()", "[*self.states.values()][:1]")),
)  # fmt: skip
"""In which recurrent state is kept."""

MUTANTS = (
    *(Mutant(number, "move_kv_cache", summary, unchanged, worker) for number, summary, worker in _PLANTED),
    *mutants_of_loops("commit_recurrent_states", [EAGLE_V2], _OF_STATES),
)
