"""Batches whose requests bring logit processors of their own, or none."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import Array, bulk


@dataclass(frozen=True)
class ProcessorCase:
    """Logits float32 [request*node, vocab]; ``scales`` holds what each request multiplies by, or None."""

    logits: Array
    scales: tuple[int | None, ...]
    num_draft_tokens: int


@composite
def processor_cases(draw: DrawFn) -> ProcessorCase:
    """Draw up to five requests; the logits are small whole numbers and never 0, so that every product shows."""
    scales = tuple(draw(st.lists(st.one_of(st.none(), st.integers(2, 9)), max_size=5)))
    num_draft_tokens, vocab = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    logits = draw(bulk()).integers((len(scales) * num_draft_tokens, vocab), 1, 99, np.float32)
    return ProcessorCase(logits, scales, num_draft_tokens)
