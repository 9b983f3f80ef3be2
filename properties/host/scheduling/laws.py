"""Laws of the scheduler's decisions: chunks, late results, and who waits for whom."""

from specsim.conformance.backend import Backend
from specsim.host.streams import StreamEvent
from specsim.properties.host.scheduling.strategy import Chunking, Lateness, chunkings, constraints, latenesses, queues
from specsim.properties.laws.checks import require, state


def chunks_fill_whole_pages(backend: Backend, case: Chunking) -> None:
    """A turn runs the rest of a prompt if it has room for it, and otherwise as many whole pages as it has room for."""
    length = backend.host("chunk_length")(case.num_left, case.budget, case.page_size)
    if case.budget is None or case.num_left <= case.budget:
        require(length == case.num_left, "length of the last chunk", length, case.num_left)
        return
    require(0 <= length <= case.budget, "length of a chunk", length, f"at most {case.budget}")
    require(length % case.page_size == 0, "length of a chunk", length, f"a multiple of {case.page_size}")
    require(length + case.page_size > case.budget, "length of a chunk", length, "every page that there is room for")


def results_reach_who_they_were_launched_for(backend: Backend, case: Lateness) -> None:
    """A result counts unless its request has ended, or was retracted after the launch, even if it runs again."""
    got = backend.host("is_late")(case.num_retractions_at_launch, case.num_retractions, case.has_finished)
    expected = case.has_finished or case.num_retractions > case.num_retractions_at_launch
    require(got == expected, "is_late", got, expected)


def conflicts_are_ordered(backend: Backend, case: tuple[StreamEvent, ...]) -> None:
    """Of two events of which one writes what the other touches, the later one waits for the earlier one."""
    after: list[set[int]] = []
    for place, event in enumerate(case):
        edges = backend.host("stream_edges")(event, case[:place])
        require(all(0 <= edge < place for edge in edges), f"edges of event {place}", edges, "earlier events")
        after.append(set(edges).union(*(after[edge] for edge in edges)))
        for other in range(place):
            if _conflict(event, case[other]):
                require(other in after[place], f"event {place} {event}", sorted(after[place]), f"after {other}")


def only_constrained_turns_wait(backend: Backend, case: list[bool]) -> None:
    """A turn waits exactly if somebody's logits are changed by what was output last."""
    got = backend.host("waits_for_result")(case)
    require(got == any(case), f"waits_for_result of {case}", got, any(case))


def _conflict(one: StreamEvent, other: StreamEvent) -> bool:
    return (
        (one.writes_map and (other.writes_map or other.reads_map))
        or (one.reads_map and other.writes_map)
        or (one.writes_slots and other.writes_slots)
    )


PROPERTIES = (
    state("scheduling", chunks_fill_whole_pages, chunkings, ("chunk_length",), "P42"),
    state("scheduling", results_reach_who_they_were_launched_for, latenesses, ("is_late",), "P56"),
    state("scheduling", conflicts_are_ordered, queues, ("stream_edges",), "P56"),
    state("scheduling", only_constrained_turns_wait, constraints, ("waits_for_result",), "P53"),
)
