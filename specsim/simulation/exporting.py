"""What may leave of a request while an engine runs: what was launched and not resolved does not count."""

from collections.abc import Iterable

from specsim.simulation.launches import Launched
from specsim.simulation.memory import ExportLengths
from specsim.simulation.requests import Request


def written_lengths(request: Request, in_flight: Iterable[Launched]) -> ExportLengths:
    """Return how many positions of a request are written and resolved in each cache.

    States lie in the request's row, where a forward on its way leaves those after tokens that are not known yet.

    Notes
    -----
    Source: semantics Q.7.
    """
    launched = [
        (one, place)
        for one in in_flight
        for place, (taking_part, num_retractions) in enumerate(zip(one.requests, one.num_retractions, strict=True))
        if taking_part is request and num_retractions == request.num_retractions
    ]
    starts = [one.chunks[place].start for one, place in launched if one.chunks is not None]
    resolved = min([request.num_committed, *starts])
    draft = resolved if request.num_caught_up is None else min(resolved, request.num_caught_up)
    return ExportLengths(resolved, draft, 0 if launched else resolved)
