"""Faults in what a worker moves of a pool, and in which recurrent state it keeps: components, layers, rows, steps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.conformance.backend import EAGLE_V2
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_loops, with_pools
from specsim.simulation.models.description import Layout
from specsim.simulation.models.moving import LaidOutPool, pool_of
from specsim.simulation.models.protocol import Model
from specsim.simulation.worker import Worker

Array = Any

_COMPONENTS, _ROWS = "description.components_of(side)", "layer_by_layer(sorts[Layout.SLOTS])"
_MOVED = "self.movable[side].move(target_slots, source_slots, operations)"


def _without(components: str) -> Function:
    """Inject that some components stay where they are; ``one`` is each of them."""
    kept = f"[one for one in {_COMPONENTS} if not ({components})]"
    return with_pools(edited(_COMPONENTS, kept, within=pool_of))


def _with_rows(rows: str) -> Function:
    """Inject that a part moves of what has a row a slot."""
    return with_pools(edited(_ROWS, rows, within=pool_of))


_WHOLE_PAGES = with_pools(
    edited(
        "operations.move_indexer_cache(self.indexers, target_slots, source_slots, self.indexer_width)",
        """
        for buffer in self.indexers:
            buffer[target_slots // INDEXER_PAGE_KEYS] = buffer[source_slots // INDEXER_PAGE_KEYS]
        """,
        within=LaidOutPool.move,
    )
)


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


def _taking_anything(loop: Any) -> Callable[..., Worker]:
    """Inject that a pool of unknown layout is taken for rows."""

    def build(config: Any, model: Model[Array], *further: Any, **named: Any) -> Worker:
        worker: Worker = loop(config, _TakenForRows(model), *further, **named)
        return worker

    return build


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


_OF_MOVES = (
    ("OWN-1400", "The last component or layer is not moved.", _with_rows(f"{_ROWS}[:-1]")),
    ("OWN-1401", "The first component or layer is not moved.", _with_rows(f"{_ROWS}[1:]")),
    ("OWN-1402", "Scales are not moved.", _without("one.name.endswith('scales')")),
    ("OWN-1403", "Data are not moved.", _without("one.name.endswith('data')")),
    ("OWN-1404", "Of the scales, those of keys alone move.", _without("one.name == 'value_scales'")),
    ("OWN-1405", "The indexer is not moved.", _without("one.layout is Layout.INDEXER_PAGES")),
    ("OWN-1406", "The indexer moves without latent and rope.", _with_rows("[]")),
    ("OWN-1407", "The indexer moves by whole pages.", _WHOLE_PAGES),
    ("OWN-1412", "Of a combined row the first half moves.",
     _with_rows(f"[row[:, : row.shape[1] // 2] for row in {_ROWS}]")),
    ("OWN-1408", "Of a combined row the second half moves.",
     _with_rows(f"[row[:, row.shape[1] // 2 :] for row in {_ROWS}]")),
    ("OWN-1409", "What V2 compacts of the target does not move.",
     with_pools(edited(_MOVED, f"if side is not Side.TARGET:\n    {_MOVED}", within="Pools.move_kv"))),
    ("OWN-1410", "Each side moves the other's slots.",
     with_pools(edited("self.movable[side]", "self.movable[Side.DRAFT if side is Side.TARGET else Side.TARGET]",
                       within="Pools.move_kv"))),
    ("OWN-1411", "A pool of unknown layout is moved by rows.", _taking_anything),
)  # fmt: skip
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
    *mutants_of_loops("move_kv_cache", [EAGLE_V2], _OF_MOVES),
    *mutants_of_loops("commit_recurrent_states", [EAGLE_V2], _OF_STATES),
)
