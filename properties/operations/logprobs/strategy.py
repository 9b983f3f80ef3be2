"""Strategies of log-probabilities."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.compact.strategy import Accepted, accepted
from specsim.properties.operations.probabilities.strategy import LOGIT_DTYPES, LOGIT_KINDS, logit_row, tie_largest
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly, overridden
from specsim.properties.strategies.malformed.arguments import Fault
from specsim.properties.strategies.malformed.sampling import empty_row, entry
from specsim.properties.strategies.malformed.structure import PATHS

TEMPERATURES = (0.0, 1.0, 0.5, 2.0, 0.7, 2.0**-20)
VOCABULARIES = (1, 2, 5, 17, 33)
LARGE = 2.0**15
"""Added to every logit of a row, it leaves the distribution as it is and every exponential out of range."""


@composite
def gather_output_logprobs(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw paths with distributions of every kind on them, temperatures that differ, and tokens that are asked for."""
    paths, vocab, source = draw(accepted(min(max_requests, 4))), draw(st.sampled_from(VOCABULARIES)), draw(bulk())
    num_requests = len(paths.accept_index)
    logits = _rows(paths, vocab, draw(st.sampled_from(LOGIT_KINDS)), source)
    predict = source.integers(paths.num_entries, 0, vocab - 1, np.int32)
    chosen = source.integers(paths.num_entries, 0, 2) > 0
    predict[chosen] = logits[chosen].argmax(axis=1)
    temperature = np.array([TEMPERATURES[place] for place in source.integers(num_requests, 0, len(TEMPERATURES) - 1)])
    token_ids = source.integers((num_requests, draw(st.sampled_from((0, 1, 3)))), 0, vocab - 1)
    return {
        "logits": logits.astype(draw(st.sampled_from(LOGIT_DTYPES))),
        "accept_index": paths.accept_index,
        "predict": predict,
        "temperature": draw(mostly(st.just(temperature.astype(np.float32)), st.none(), one_in=5)),
        "token_ids": draw(overridden(token_ids, (-1,))),
        "num_top": draw(st.integers(0, min(vocab, 3))),
        "is_clamped": draw(st.booleans()),
    }


def _rows(paths: Accepted, vocab: int, kind: str, source: Bulk) -> Array:
    logits = np.zeros((paths.num_entries, vocab))
    for node in paths.accept_index[paths.accept_index >= 0].tolist():
        logits[node] = logit_row(kind, vocab, source)
        logits[node] += LARGE * (source.integer(0, 3) == 1)
    tie_largest(logits, source)
    return logits


_BEYOND = (entry("temperature", 2.0**21), entry("temperature", 2.0**-21))
FAULTS: dict[str, tuple[Fault, ...]] = {
    "gather_output_logprobs": (*PATHS, entry("logits", float("inf")), empty_row("logits", -float("inf")), *_BEYOND)
}
