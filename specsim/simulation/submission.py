"""Requests that an engine refuses, because they could never run."""

from specsim.config import PoolSizes, SpecConfig
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.pools import most_positions
from specsim.simulation.requests import Request


def check_request(config: SpecConfig, sizes: PoolSizes, request: Request, num_swa_slots: int) -> None:
    """Raise unless a request could run alone, which may hold so many SWA slots at once.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: an empty prompt, no token asked for, or a prompt that leaves no room in the context;
        BAD_CONFIGURATION: rules that contradict themselves; ROW_TOO_SHORT, OUT_OF_SLOTS: it could never be admitted.
    """
    for what, got in (("len(prompt)", len(request.prompt)), ("max_new_tokens", request.max_new_tokens)):
        if got < 1:
            raise SpecRejection(
                Reason.COUNT_OUT_OF_RANGE, what=what, got=got, expected="at least 1", because="it is decoded from"
            )
    limit = request.rules.context_limit
    if limit is not None and len(request.prompt) >= limit:
        raise SpecRejection(
            Reason.COUNT_OUT_OF_RANGE,
            what="len(prompt)",
            got=len(request.prompt),
            expected=f"below {limit}",
            because="the context has to hold an output token",
        )
    size, which = sizes.page_size, " that a window may reach at once"
    need, most_swa = most_positions(config, request, size), max(0, sizes.num_swa_slots - size)
    for reason, got, of, most, because in (
        (Reason.ROW_TOO_SHORT, need, "", sizes.row_width + size - 1, "a row holds no more"),
        (Reason.OUT_OF_SLOTS, need, "", sizes.num_slots - size, "the pool has no more slots"),
        (Reason.OUT_OF_SLOTS, num_swa_slots, which, most_swa, "the SWA pool has no more slots"),
    ):
        if got > most:
            what, expected = f"positions of the request{of}", f"at most {most}"
            raise SpecRejection(reason, what=what, got=got, expected=expected, because=because)
