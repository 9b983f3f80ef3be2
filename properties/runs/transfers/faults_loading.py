"""Faults in what an engine loads of another one's text: too much of it, in other slots, of another time."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from specsim.algorithms import WORKERS
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    answering,
    mutants_of,
    unchanged,
    with_arguments,
)
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.handing_over import Contents, SlotLoad
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import Side
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler

Array = Any


def _narrower(correct: Function, named: Named) -> Any:
    return correct(**{**named, "window": max(named["window"] - 1, min(named["window"], 1))})


def _one_less(correct: Function, named: Named) -> Any:
    return max(correct(**named) - 1, 1)


class _SlotsLate(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write the first entry into the second slot, and so on."""
        super().load(row, [*slots[1:], *slots[:1]], contents)


class _OneTokenTooMany(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Leave the last slot as its former owner left it: its token was counted and never written."""
        names = ("target_kv", "draft_kv")
        kept = {name: [layer[: len(slots) - 1] for layer in contents[name]] for name in names}
        super().load(row, slots[:-1], {**contents, **kept})


class _WindowLate(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write the window's entries one position late."""
        late = [np.roll(layer, 1, axis=0) for layer in contents.get("swa_kv", ())]
        super().load(row, slots, {**contents, **({"swa_kv": late} if late else {})})


class _WindowStale(Pools):
    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Hand out what the window's slots held of positions that it has passed."""
        contents = super().export(row, slots)
        if self.swa_kv:
            width = self.window
            contents["swa_kv"] = [layer[np.maximum(np.arange(len(layer)) - width, 0)] for layer in contents["swa_kv"]]
        return contents


class _WindowInFullSlots(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write the window's entries where the map of slots pointed before."""
        before = self.full_to_swa.copy()
        self.full_to_swa[:] = np.roll(before, 1)
        super().load(row, slots, contents)
        self.full_to_swa[:] = before


class _StatesShared(Pools):
    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Hand out the states themselves in the place of copies."""
        states = [state[row] for layers in self.states.values() for state in layers]
        return {**super().export(row, slots), "states": states}


class _StatesLeftOut(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Leave the states as the row's last owner left them."""
        own = [state[row].copy() for layers in self.states.values() for state in layers]
        super().load(row, slots, {**contents, "states": own})


class _StatesOfTheFirstLayer(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write the states of the first layer into all layers that can hold them."""
        states = [state[row] for layers in self.states.values() for state in layers]
        first = contents["states"][:1]
        same = [
            first[0] if one.shape == first[0].shape else kept
            for one, kept in zip(states, contents["states"], strict=True)
        ]
        super().load(row, slots, {**contents, "states": same})


class _DraftLeftOut(Pools):
    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Load nothing of the draft."""
        chosen = list(slots)
        own = [buffer[chosen].copy() for buffer in self.kv[Side.DRAFT].layers()]
        super().load(row, slots, {**contents, "draft_kv": own})


class _LoadsTheFront(Scheduler):
    """Loads the front of a text after what was hit, in the place of what follows it."""

    def _load(self, request: Request) -> list[SlotLoad]:
        whole = {} if request.loaded is None else request.loaded.contents
        loads = super()._load(request)
        front = [
            {
                name: layers if name in ("states", "swa_kv") else [layer[: len(one.slots)] for layer in layers]
                for name, layers in whole.items()
            }
            for one in loads
        ]
        return [
            replace(one, contents={**one.contents, **{name: mine[name] for name in ("target_kv", "draft_kv")}})
            for one, mine in zip(loads, front, strict=True)
        ]


_LOADABLE = "loadable_positions"

_OTHERS = tuple(name for name in WORKERS if name not in (EAGLE_V1, EAGLE_V2))

_OF_LOADS = (
    ("OWN-4740", "Entries are loaded into the slot after theirs.", _SlotsLate),
    ("OWN-4741", "A token counts as loaded that was not.", _OneTokenTooMany),
    ("OWN-4742", "The window is loaded one position late.", _WindowLate),
    ("OWN-4743", "What a window has passed leaves as its entries.", _WindowStale),
    ("OWN-4744", "The window is loaded by the map of slots as it was.", _WindowInFullSlots),
    ("OWN-4745", "States leave as they are, and not as they were.", _StatesShared),
    ("OWN-4746", "States are not loaded.", _StatesLeftOut),
    ("OWN-4747", "The states of one layer are loaded into all.", _StatesOfTheFirstLayer),
    ("OWN-4748", "The draft's entries are not loaded.", _DraftLeftOut),
)


MUTANTS = (
    *mutants_of(
        _LOADABLE,
        (
            "OWN-4730",
            "The last token is loaded, too, if its entry came.",
            with_arguments(num_tokens=lambda num_tokens: num_tokens + 1),
        ),
        ("OWN-4731", "Positions are loaded that the draft does not have.", with_arguments(num_draft=None)),
        ("OWN-4732", "States are loaded with positions that they have not read.", with_arguments(num_states=None)),
        ("OWN-4733", "A window is loaded that lacks its first position.", answering(_narrower)),
        ("OWN-4734", "A page is loaded whose window came in part.", with_arguments(page_size=1)),
        ("OWN-4735", "A window that is gone is loaded.", with_arguments(window_start=0)),
        ("OWN-4736", "The last position that came is computed again.", answering(_one_less)),
        (
            "OWN-4737",
            "One position more than came is loaded.",
            with_arguments(num_target=lambda num_target: num_target + 1),
        ),
    ),
    *(
        Mutant(
            number,
            _LOADABLE,
            fault,
            unchanged,
            worker=partial(ReferenceWorker, make_pools=pools.of),
            worker_v1=partial(ReferenceWorkerV1, make_pools=pools.of),
            workers={name: partial(loop_of(name), make_pools=pools.of) for name in _OTHERS},
        )
        for number, fault, pools in _OF_LOADS
    ),
    Mutant(
        "OWN-4749",
        _LOADABLE,
        "The front of a text is loaded after what was hit of it.",
        unchanged,
        scheduler=_LoadsTheFront,
    ),
)
