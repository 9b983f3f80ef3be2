"""Faults in what leaves an engine: too much of it, under the wrong name, too early, or gone before it has arrived."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specsim.counts import ceil_to
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    answering,
    mutants_of,
    overriding,
    unchanged,
    with_arguments,
    with_fields,
)
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.memory import Export, Exports, Transfer
from specsim.simulation.models.description import Side

Array = Any


def _all_tokens(correct: Function, named: Named) -> Any:
    text, slots, size = named["text"], named["holding"].slots, named["memory"].page_size
    right = correct(**named)
    count = len(text) if len(text) == named["num_tokens"] else right.lengths.target
    left = {"tokens": tuple(text[:count]), "slots": tuple(slots[:count]), "num_pages": count // size}
    return replace(right, lengths=replace(right.lengths, target=count), **left)


def _with_lengths(change: Callable[[Export, Named], Named]) -> Callable[[Function], Function]:
    """Inject a fault in the lengths of what leaves."""
    return with_fields(lambda export, named: {"lengths": replace(export.lengths, **change(export, named))})


def _after_the_end(export: Export, named: Named) -> Named:
    target = named["written"].target
    return {"slots": tuple(named["holding"].slots[:target]), "num_pages": target // named["memory"].page_size}


def _unshifted(export: Export, named: Named) -> Named:
    target = export.lengths.target
    lengths = replace(export.lengths, draft=target)
    return {"lengths": lengths, "num_pages": target // named["memory"].page_size}


def _of_one_more(correct: Function, named: Named) -> Any:
    correct(**named)
    written, final = named["num_written"], named["num_final"]
    return (min(written, written if final is None else final) + 1) // named["page_size"]


def _rounded_up(correct: Function, named: Named) -> Any:
    correct(**named)
    written, final, size = named["num_written"], named["num_final"], named["page_size"]
    return ceil_to(min(written, written if final is None else final), size) // size


def _past_the_end(correct: Function, named: Named) -> Any:
    correct(**named)
    return named["num_written"] // named["page_size"]


def _never_cut(correct: Function, exports: Exports, name: Any, export: Export) -> Transfer:
    before = exports.left_of(name)
    transfer: Transfer = correct(exports, name, export)
    exports._left[name] = (*before, *exports.left_of(name)[len(before) :])
    return transfer


def _cut_by_length(correct: Function, exports: Exports, name: Any, export: Export) -> Transfer:
    before = exports.left_of(name)
    transfer: Transfer = correct(exports, name, export)
    after = exports.left_of(name)
    exports._left[name] = (*before[: len(after)], *after[len(before) :])
    return transfer


def _again(correct: Function, exports: Exports, name: Any, export: Export) -> Transfer:
    exports.forget(name)
    transfer: Transfer = correct(exports, name, export)
    return transfer


def _not_read(correct: Function, exports: Exports, name: Any, export: Export) -> Transfer:
    transfer: Transfer = correct(exports, name, export)
    exports._on_the_way[transfer.number] = frozenset(sorted(exports._on_the_way[transfer.number])[1:])
    return transfer


def _all_late(correct: Function, exports: Exports, number: int) -> list[int]:
    late = list(exports.late)
    correct(exports, number)
    exports._late = []
    return late


def _none_late(correct: Function, exports: Exports, number: int) -> list[int]:
    correct(exports, number)
    return []


def _ended_twice(correct: Function, exports: Exports, number: int) -> list[int]:
    return list(correct(exports, number)) if number in exports._on_the_way else []


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


_TEXT, _COUNT, _EXPORTS = "export_text", "exportable_pages", "Exports"

_OF_DOORS = (
    ("OWN-4701", "What leaves is copied before the accepted path has moved.", _BeforeTheMove),
    ("OWN-4720", "States of another row leave.", _OfTheRowBefore),
    ("OWN-4721", "Entries leave under the position before theirs.", _OneSlotLate),
    ("OWN-4722", "The target's entries leave as the draft's.", _OfTheTarget),
)

MUTANTS = (
    *mutants_of(
        _TEXT,
        ("OWN-4700", "The last token leaves, which was never fed.", answering(_all_tokens)),
        (
            "OWN-4702",
            "States leave with their length rounded up to a page.",
            _with_lengths(lambda export, named: {"states": ceil_to(export.lengths.states, named["memory"].page_size)}),
        ),
        ("OWN-4704", "Positions after the end leave with the text.", with_fields(_after_the_end)),
        (
            "OWN-4705",
            "Slots that are allocated ahead leave with the text.",
            with_fields(lambda export, named: {"slots": tuple(named["holding"].slots)}),
        ),
        ("OWN-4706", "The draft's last entry leaves without the token that it read.", with_fields(_unshifted)),
        (
            "OWN-4707",
            "The draft has caught up on every text that leaves.",
            with_arguments(written=lambda written: replace(written, draft=written.target)),
        ),
        (
            "OWN-4708",
            "States that are further than the text leave with it.",
            _with_lengths(lambda export, named: {"states": min(named["written"].states, export.lengths.target)}),
        ),
        (
            "OWN-4709",
            "The last page leaves in part.",
            with_fields(
                lambda export, named: {
                    "num_pages": -(-export.lengths.target // named["memory"].page_size),
                }
            ),
        ),
        (
            "OWN-4723",
            "The last page never leaves.",
            with_fields(lambda export, named: {"num_pages": max(export.num_pages - 1, 0)}),
        ),
    ),
    *mutants_of(
        _COUNT,
        ("OWN-4710", "Pages are counted of all tokens.", answering(_of_one_more)),
        ("OWN-4711", "Pages are counted past the end.", answering(_past_the_end)),
        ("OWN-4712", "A page counts when it begins.", answering(_rounded_up)),
        (
            "OWN-4713",
            "A last token that counts as written is taken.",
            with_arguments(num_tokens=lambda num_tokens: num_tokens + 1),
        ),
        ("OWN-4714", "A cached front that is longer than what leaves is taken.", with_arguments(num_protected=0)),
    ),
    *mutants_of(
        _EXPORTS,
        ("OWN-4703", "Pages of a text that went back stay in the list.", overriding(begin=_never_cut)),
        ("OWN-4715", "A page in the place of another stays out of the list.", overriding(begin=_cut_by_length)),
        ("OWN-4716", "Pages leave again at every step.", overriding(begin=_again)),
        ("OWN-4717", "A page is free while it is on its way.", overriding(keep=lambda correct, self, slots: [*slots])),
        ("OWN-4718", "The first page of a transfer is not kept.", overriding(begin=_not_read)),
        ("OWN-4719", "The end of one transfer frees what another one reads.", overriding(end=_all_late)),
        ("OWN-4724", "What was given back late is never free.", overriding(end=_none_late)),
        ("OWN-4725", "A transfer ends twice.", overriding(end=_ended_twice)),
    ),
    *(
        Mutant(
            number,
            _TEXT,
            fault,
            unchanged,
            worker=partial(ReferenceWorker, make_pools=pools.of),
            worker_v1=partial(ReferenceWorkerV1, make_pools=pools.of),
        )
        for number, fault, pools in _OF_DOORS
    ),
)
