"""Laws of the scheduler's decisions: chunks, allocation ahead, retraction, late results, and who waits for whom."""

from specsim.conformance.backend import Backend
from specsim.host.streams import StreamEvent
from specsim.properties.laws.support.checks import require, state
from specsim.properties.strategies.scheduling import (
    Chunking,
    Crowd,
    Lateness,
    Row,
    chunkings,
    crowds,
    decode_rows,
    latenesses,
    queues,
)


def chunks_fill_whole_pages(backend: Backend, case: Chunking) -> None:
    """A turn runs the rest of a prompt if it has room for it, and otherwise as many whole pages as it has room for."""
    length = backend.host("chunk_length")(case.num_left, case.budget, case.page_size)
    if case.budget is None or case.num_left <= case.budget:
        require(length == case.num_left, "length of the last chunk", length, case.num_left)
        return
    require(0 <= length <= case.budget, "length of a chunk", length, f"at most {case.budget}")
    require(length % case.page_size == 0, "length of a chunk", length, f"a multiple of {case.page_size}")
    require(length + case.page_size > case.budget, "length of a chunk", length, "every page that there is room for")


def two_iterations_fit_and_nothing_shrinks(backend: Backend, case: Row) -> None:
    """A row grows to the first page behind the reserve, or stays as it is where it is that long."""
    end = backend.host("decode_end")(case.num_committed, case.num_allocated, case.reserve, case.page_size)
    require(end >= case.num_allocated, "allocated positions", end, f"at least {case.num_allocated}")
    least = case.num_committed + case.reserve
    require(end >= least, "allocated positions", end, f"at least {least}")
    if end > case.num_allocated:
        require(end % case.page_size == 0, "allocated positions", end, f"a multiple of {case.page_size}")
        require(end - case.page_size < least, "allocated positions", end, f"no page more than {least} take")


def as_many_decode_as_find_room(backend: Backend, case: Crowd) -> None:
    """Those at the front that find room, when those behind them have given way, stay: as many as possible."""
    plan = backend.host("plan_retractions")(case.num_free, case.needed, case.owned)

    def finds_room(num_kept: int) -> bool:
        return sum(case.needed[:num_kept]) <= case.num_free + sum(case.owned[num_kept:])

    fitting = [count for count in range(1, len(case.needed) + 1) if finds_room(count)]
    longest = len(case.needed)
    while longest > 1 and longest not in fitting:
        longest -= 1
    require(plan.num_kept == longest, "requests that stay", plan.num_kept, longest)
    is_stuck = longest == 1 and 1 not in fitting
    require(plan.is_last_aborted == is_stuck, "is_last_aborted", plan.is_last_aborted, is_stuck)


def results_reach_who_they_were_launched_for(backend: Backend, case: Lateness) -> None:
    """A result counts unless its request has ended, or was retracted after the launch, even if it runs again."""
    got = backend.host("is_late")(case.num_retractions_at_launch, case.num_retractions, case.has_finished)
    expected = case.has_finished or case.num_retractions > case.num_retractions_at_launch
    require(got == expected, "is_late", got, expected)


def conflicts_are_ordered(backend: Backend, case: tuple[StreamEvent, ...]) -> None:
    """Of two events of which one writes what the other touches, the later one waits for the earlier one."""
    behind: list[set[int]] = []
    for place, event in enumerate(case):
        edges = backend.host("stream_edges")(event, case[:place])
        require(all(0 <= edge < place for edge in edges), f"edges of event {place}", edges, "earlier events")
        behind.append(set(edges).union(*(behind[edge] for edge in edges)))
        for other in range(place):
            if _conflict(event, case[other]):
                require(other in behind[place], f"event {place} {event}", sorted(behind[place]), f"behind {other}")


def only_constrained_turns_wait(backend: Backend, case: Crowd) -> None:
    """A turn waits exactly if a request has something to do with the last result before its logits are changed."""
    for is_constrained in ([], [False] * len(case.needed), [number == 0 for number in case.needed]):
        got = backend.host("waits_for_result")(is_constrained)
        require(got == any(is_constrained), f"waits_for_result of {is_constrained}", got, any(is_constrained))


def _conflict(one: StreamEvent, other: StreamEvent) -> bool:
    return (
        (one.writes_map and (other.writes_map or other.reads_map))
        or (one.reads_map and other.writes_map)
        or (one.writes_slots and other.writes_slots)
    )


PROPERTIES = (
    state("scheduling", chunks_fill_whole_pages, chunkings, ("chunk_length",), "P42"),
    state("scheduling", two_iterations_fit_and_nothing_shrinks, decode_rows, ("decode_end",), "P46"),
    state("scheduling", as_many_decode_as_find_room, crowds, ("plan_retractions",), "P39"),
    state("scheduling", results_reach_who_they_were_launched_for, latenesses, ("is_late",), "P56"),
    state("scheduling", conflicts_are_ordered, queues, ("stream_edges",), "P56"),
    state("scheduling", only_constrained_turns_wait, crowds, ("waits_for_result",), "P53"),
)
