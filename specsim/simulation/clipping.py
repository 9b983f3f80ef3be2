"""How deep the drafts of a batch may go before one of its requests is at the end of its context."""

from collections.abc import Iterable, Sequence

from specsim.config import SpecConfig
from specsim.conformance.host_protocol import HostFunctions
from specsim.counts import path_width
from specsim.simulation.launches import Launched
from specsim.simulation.requests import Request


def clipped_steps(
    running: Sequence[Request],
    in_flight: Iterable[Launched],
    config: SpecConfig,
    wanted: int | None,
    operations: HostFunctions,
) -> int | None:
    """Return how many steps an iteration drafts, so that none of its positions lies after a context.

    Parameters
    ----------
    running : sequence of Request
        Who takes part.
    in_flight : iterable of Launched
        What is not resolved. Of that everything may be accepted.
    config : SpecConfig
        What the worker allocates for; a chain.
    wanted : int or None
        Steps that would be drafted with room enough; None for those of the configuration.
    operations : HostFunctions
        Clip the drafts of one request.

    Notes
    -----
    Source: semantics B.11.
    """
    launched = list(in_flight)
    most = config.num_steps if wanted is None else wanted
    for request in running:
        num_tokens = len(request.prompt) + len(request.output) + _most_on_the_way(request, launched, config)
        most = operations.clip_drafts(request.rules, num_tokens, most)
    return wanted if most == config.num_steps else most


def _most_on_the_way(request: Request, launched: Sequence[Launched], config: SpecConfig) -> int:
    """Return how many tokens of a request the results that are out may bring."""
    return sum(
        1 if one.chunks is not None else path_width(own_steps)
        for one in launched
        for taking_part, own_steps in zip(one.requests, one.own_steps(config), strict=True)
        if request is taking_part
    )
