"""Faults in what leaves an engine: too much of it, under the wrong name, too early, or gone before it has arrived."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.properties.mutants.record import Mutant, edits_of, mutants_of, unchanged, with_arguments
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.description import Side

Array = Any


class _BeforeTheMove(Pools):
    """Hands out what the slots of a path had before it was moved to them."""

    def move_kv(self, side: Side, target_slots: Array, source_slots: Array, operations: Any) -> None:
        pool = self.kv[side]
        vars(pool)["before"] = [layer.copy() for layer in pool.layers()], set(target_slots.tolist())
        super().move_kv(side, target_slots, source_slots, operations)

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        contents = super().export(row, slots)
        before, moved = vars(self.kv[Side.TARGET]).get("before", ([], set()))
        places = [place for place, slot in enumerate(slots) if slot in moved]
        for entries, layer in zip(contents["target_kv"], before, strict=bool(before)):
            for place in places:
                entries[place] = layer[slots[place]]
        return contents


class _OfTheRowBefore(Pools):
    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Hand out the states of another row."""
        return super().export(row - 1, slots)


class _OneSlotLate(Pools):
    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Hand out the last slot of a page twice and the first one never."""
        return super().export(row, [*slots[1:], *slots[-1:]])


class _OfTheTarget(Pools):
    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Hand out the target's entries in the place of the draft's."""
        contents = super().export(row, slots)
        target, draft = contents["target_kv"], contents["draft_kv"]
        return {**contents, "draft_kv": [target[layer % len(target)] for layer in range(len(draft))]}


_OF_DOORS = (
    ("OWN-4701", "What leaves is copied before the accepted path has moved.", _BeforeTheMove),
    ("OWN-4720", "States of another row leave.", _OfTheRowBefore),
    ("OWN-4721", "Entries leave under the position before theirs.", _OneSlotLate),
    ("OWN-4722", "The target's entries leave as the draft's.", _OfTheTarget),
)

MUTANTS = (
    *edits_of(
        """
        @@ export_text
        OWN-4700 The last token leaves, which was never fed.
        - min(written.target, len(text))
        + len(text) if len(text) == num_tokens else min(written.target, len(text))
        OWN-4702 States leave with their length rounded up to a page.
        - written.states if written.states <= target else 0
        + -(-written.states // memory.page_size) * memory.page_size if written.states <= target else 0
        OWN-4704 Positions after the end leave with the text.
        - tuple(holding.slots[:target]) => tuple(holding.slots[: written.target])
        - min(num_pages, draft // memory.page_size) => written.target // memory.page_size
        OWN-4705 Slots that are allocated ahead leave with the text.
        - holding.slots[:target] => holding.slots
        OWN-4706 The draft's last entry leaves without the token that it read.
        - max(units, books.num_protected) => target
        OWN-4708 States that are further than the text leave with it.
        - written.states if written.states <= target else 0 => min(written.states, target)
        OWN-4709 The last page leaves in part.
        - min(num_pages, draft // memory.page_size) => -(-target // memory.page_size)
        OWN-4723 The last page never leaves.
        - min(num_pages, draft // memory.page_size) => max(min(num_pages, draft // memory.page_size) - 1, 0)
        @@ exportable_pages
        OWN-4710 Pages are counted of all tokens.
        - num_left // page_size => (num_left + 1) // page_size
        OWN-4711 Pages are counted past the end.
        - num_left // page_size => num_written // page_size
        OWN-4712 A page counts when it begins.
        - num_left // page_size => -(-num_left // page_size)
        @@ Exports
        OWN-4703 Pages of a text that went back stay in the list.
        - self._left[name] = slots => self._left[name] = (*before, *slots[len(before) :])
        OWN-4715 A page in the place of another stays out of the list.
        - self._left[name] = slots => self._left[name] = (*before[: len(slots)], *slots[len(before) :])
        OWN-4716 Pages leave again at every step.
        - self.left_of(name) => ()
        OWN-4717 A page is free while it is on its way.
        - not self._on_the_way => True
        OWN-4718 The first page of a transfer is not kept.
        - frozenset(slot // self._page_size for slot in transfer.slots)
        + frozenset(sorted({slot // self._page_size for slot in transfer.slots})[1:])
        OWN-4719 The end of one transfer frees what another one reads.
        - self.keep(late) => late
        OWN-4724 What was given back late is never free.
        - return self.keep(late)
        + self.keep(late)
        + return []
        OWN-4725 A transfer ends twice.
        - raise double_free("transfer", [number]) => return []
        """
    ),
    *mutants_of(
        "export_text",
        (
            "OWN-4707",
            "The draft has caught up on every text that leaves.",
            with_arguments(written=lambda written: replace(written, draft=written.target)),
        ),
    ),
    *mutants_of(
        "exportable_pages",
        (
            "OWN-4713",
            "A last token that counts as written is taken.",
            with_arguments(num_tokens=lambda num_tokens: num_tokens + 1),
        ),
        ("OWN-4714", "A cached front that is longer than what leaves is taken.", with_arguments(num_protected=0)),
    ),
    *(
        Mutant(
            number,
            "export_text",
            fault,
            unchanged,
            worker=partial(ReferenceWorker, make_pools=pools.of),
            worker_v1=partial(ReferenceWorkerV1, make_pools=pools.of),
        )
        for number, fault, pools in _OF_DOORS
    ),
)
