"""Requests that an engine refuses, because they could never run."""

from specsim.config import PoolSizes, SpecConfig
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.pools import most_positions
from specsim.simulation.requests import Request


def check_request(config: SpecConfig, sizes: PoolSizes, request: Request, num_swa_slots: int = 0) -> None:
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
    need, num_slots = most_positions(config, request, sizes.page_size), sizes.num_slots - sizes.page_size
    for reason, most, because in (
        (Reason.ROW_TOO_SHORT, sizes.row_width + sizes.page_size - 1, "a row holds no more"),
        (Reason.OUT_OF_SLOTS, num_slots, "the pool has no more slots"),
    ):
        if need > most:
            what, expected = "positions of the request", f"at most {most}"
            raise SpecRejection(reason, what=what, got=need, expected=expected, because=because)
    most = max(0, sizes.num_swa_slots - sizes.page_size)
    if num_swa_slots > most:
        raise SpecRejection(
            Reason.OUT_OF_SLOTS,
            what="positions of the request that a window may reach at once",
            got=num_swa_slots,
            expected=f"at most {most}",
            because="the SWA pool has no more slots",
        )
