"""Faults in what a worker keeps of its pools: writes that no one counts, so that old digests stay."""

from collections.abc import Callable
from functools import partial
from typing import Any

from specsim.conformance.backend import load
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.description import ModelDescription, Side
from specsim.simulation.models.kv_pool import Door, KVPool, Reads, Words
from specsim.simulation.worker import Worker

Array = Any


def _with_door(door: Door) -> Callable[..., Worker]:
    """Return what builds a worker whose door misses writes."""
    return partial(ReferenceWorker, reads=Reads.KEPT, make_pools=partial(Pools.of, door=door))


def _counted_once(versions: Words, slots: Array) -> None:
    versions[slots] = 1


def _last_left_out(versions: Words, slots: Array) -> None:
    versions[slots[:-1]] += 1


def _slot_after(versions: Words, slots: Array) -> None:
    versions[(slots + 1) % len(versions)] += 1


def _moved_past_the_door(config: Any, model: Any, sizes: Any) -> Worker:
    """Return a worker in which slots move when the door is closed again."""
    reference = load("specsim.reference")
    prepare = reference.functions["prepare_for_extend_to_fill_draft_kvcache"]
    waiting: list[tuple[Array, Array]] = []

    def put_off(kv_buffers: Array, target_slots: Array, source_slots: Array) -> None:
        waiting.append((target_slots, source_slots))

    def move_before(seq_lens: Array, num_accepted_tokens: Array, num_draft_tokens: int) -> Any:
        while waiting:
            target_slots, source_slots = waiting.pop()
            for buffer in worker.state()["target_kv"]:
                buffer[target_slots] = buffer[source_slots]
        return prepare(seq_lens, num_accepted_tokens, num_draft_tokens)

    operations = reference.with_function("move_kv_cache", put_off, reference.name)
    operations = operations.with_function("prepare_for_extend_to_fill_draft_kvcache", move_before, reference.name)
    worker = ReferenceWorker(config, model, sizes, operations, Reads.KEPT)
    return worker


def _sides_share_a_count(description: ModelDescription, sizes: Any, reads: Reads) -> Pools:
    """Return pools in which only the target's door counts."""
    pools = Pools.of(description, sizes, reads)
    unseen = KVPool(pools.kv[Side.DRAFT], sizes.num_slots, is_watched=True, door=lambda versions, slots: None)
    return Pools(**{**vars(pools), "kv": {Side.TARGET: pools.kv[Side.TARGET], Side.DRAFT: unseen}})


_PLANTED: tuple[tuple[str, str, Callable[..., Worker]], ...] = (
    ("OWN-801", "A move writes past the door.", _moved_past_the_door),
    ("OWN-802", "No write is counted.", _with_door(lambda versions, slots: None)),
    ("OWN-803", "A slot's second owner is taken for its first.", _with_door(_counted_once)),
    ("OWN-804", "The last slot of a write is not counted.", _with_door(_last_left_out)),
    ("OWN-805", "The slot after each written one is counted.", _with_door(_slot_after)),
    (
        "OWN-806",
        "Writes of the draft are not counted.",
        partial(ReferenceWorker, reads=Reads.KEPT, make_pools=_sides_share_a_count),
    ),
)

MUTANTS = tuple(Mutant(number, "move_kv_cache", fault, unchanged, worker) for number, fault, worker in _PLANTED)
