"""Two streams of a device: what the scheduler queues on one, what forwards queue on the other, and who waits for whom.

The schedule stream writes the request-to-token map. A forward reads its slots from the map, and writes KV and what
starts the next draft; reading may be done long before writing is.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamEvent:
    """One piece of queued work.

    Parameters
    ----------
    launch : int
        Number of the launch that it belongs to: its map is written for it, its slots are read or written by it.
    writes_map, reads_map, writes_slots : bool
        What it does.
    """

    launch: int
    writes_map: bool = False
    reads_map: bool = False
    writes_slots: bool = False


def stream_edges(event: StreamEvent, earlier: Sequence[StreamEvent]) -> tuple[int, ...]:
    """Return the places of the events that one waits for, among those that were queued before it.

    Two orders make it legal that slots and rows change owners while launched forwards still use them: KV is written in
    the order of the launches, and the map is written after every read of the forwards that were launched before. A
    forward reads the map after everything that was written for it, and writes after its own read.

    Notes
    -----
    Source: semantics I.4, J.2.
    """
    return tuple(place for place, other in enumerate(earlier) if _waits(event, other))


def _waits(event: StreamEvent, other: StreamEvent) -> bool:
    if event.writes_map:
        return other.writes_map or other.reads_map
    return other.writes_slots or other.reads_map or (event.reads_map and other.writes_map)
