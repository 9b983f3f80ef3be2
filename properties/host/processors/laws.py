"""Laws of custom logit processors: each sees the rows of its own request, once, before anything else is applied."""

from collections.abc import Callable

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.host.processors.strategy import ProcessorCase, processor_cases
from specsim.properties.laws.checks import Array, require_equal, states


def processors_see_the_rows_of_their_requests(backend: Backend, case: ProcessorCase) -> None:
    """Every processor is called once, in order, with the raw rows of its request."""
    seen: list[tuple[int, Array]] = []
    logits = case.logits.copy()

    def processor_of(request: int, scale: int) -> Callable[[Array], Array]:
        def process(rows: Array) -> Array:
            seen.append((request, rows.copy()))
            rows *= scale
            return rows

        return process

    processors = [None if scale is None else processor_of(place, scale) for place, scale in enumerate(case.scales)]
    backend.host("apply_logit_processors")(logits, processors, case.num_draft_tokens)
    expected = [place for place, scale in enumerate(case.scales) if scale is not None]
    require_equal("requests whose processor was called", [request for request, _ in seen], expected)
    for request, rows in seen:
        first = request * case.num_draft_tokens
        require_equal(f"rows of processor {request}", rows, case.logits[first : first + case.num_draft_tokens])


def rows_become_what_their_processor_returns(backend: Backend, case: ProcessorCase) -> None:
    """The rows of a request are what its processor made of them; rows without one stay."""
    logits = case.logits.copy()
    processors = [None if scale is None else _scaled_by(scale) for scale in case.scales]
    backend.host("apply_logit_processors")(logits, processors, case.num_draft_tokens)
    scale = np.array([1 if one is None else one for one in case.scales], dtype=np.float32)
    require_equal("logits", logits, case.logits * np.repeat(scale, case.num_draft_tokens)[:, None])


def _scaled_by(scale: int) -> Callable[[Array], Array]:
    return lambda rows: np.asarray(rows * np.float32(scale))


PROPERTIES = states(
    "processors",
    (processors_see_the_rows_of_their_requests, processor_cases, ("apply_logit_processors",), "P14"),
    (rows_become_what_their_processor_returns, processor_cases, ("apply_logit_processors",), "P14"),
)
