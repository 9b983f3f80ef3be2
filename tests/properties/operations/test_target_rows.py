"""Where ties are free a filter may keep any of several equal tokens, and nothing else."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.limits import Limits
from specsim.properties.operations.probabilities.laws import min_p_keeps_what_reaches_the_share
from specsim.properties.operations.probabilities.laws_target_rows import (
    reversing_tokens_reverses_rows,
    rows_are_those_of_a_plain_sampler,
)
from specsim.properties.strategies.limits import drawing_within

OPERATION = "target_probabilities"
LAWS = (reversing_tokens_reverses_rows, rows_are_those_of_a_plain_sampler)


def keep_the_last(logits, **_):
    """Return rows that keep the last of the largest logits alone."""
    last = logits.shape[1] - 1 - logits[:, ::-1].argmax(axis=1)
    return np.eye(logits.shape[1], dtype=np.float32)[last]


def case_of(*logits):
    """Return a row of which top-p keeps the most probable tokens until they have two fifths."""
    settings = {"temperature": [1], "top_p": [0.4], "min_p": [0]}
    arrays = {name: np.array(value, np.float32) for name, value in settings.items()}
    return {"logits": np.array([logits], np.float32), "top_k": np.array([9], np.int32), "num_draft_tokens": 1, **arrays}


@pytest.mark.parametrize("law", LAWS)
def test_a_tie_may_fall_either_way_where_ties_are_free(law):
    reference = load("specsim.reference")
    faulty = replace(reference, functions={**reference.functions, "target_probabilities": keep_the_last})
    tied, flat = case_of(0.0, 0.0), case_of(0.0, -0.01)
    law(reference, tied)
    with pytest.raises(AssertionError):
        law(faulty, tied)
    with drawing_within(Limits(ties_are_free=True), (OPERATION,)):
        law(faulty, tied)
        law(reference, flat)
    faulty_everywhere = replace(faulty, functions={**faulty.functions, "target_probabilities": first_alone})
    with drawing_within(Limits(ties_are_free=True), (OPERATION,)), pytest.raises(AssertionError):
        law(faulty_everywhere, case_of(0.0, 1.0))


def first_alone(logits, **_):
    """Return rows that keep the first token alone, whatever its logit."""
    return np.eye(logits.shape[1], dtype=np.float32)[np.zeros(len(logits), dtype=int)]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_probability_that_is_its_share_is_a_tie_too(keeps):
    """An engine that filters logarithms rounds it to one side or the other."""
    row, share = np.array([[0.5, 0.25, 0.25 - 2**-10, 2**-10]], np.float32), np.array([0.5], np.float32)
    case = {"probabilities": row, "min_p": share}

    def filtered(probabilities, min_p, least=0.25):
        kept = np.where(probabilities >= least if keeps else probabilities > least, probabilities, 0)
        return kept / kept.sum(axis=1, keepdims=True)

    reference = load("specsim.reference")
    engine = replace(reference, functions={**reference.functions, "min_p_renorm": filtered})
    faulty = replace(reference, functions={**reference.functions, "min_p_renorm": partial(filtered, least=0.2)})
    with drawing_within(Limits(ties_are_free=True), ("min_p_renorm",)):
        min_p_keeps_what_reaches_the_share(engine, case)
        with pytest.raises(AssertionError):
            min_p_keeps_what_reaches_the_share(faulty, case)
    if not keeps:
        with pytest.raises(AssertionError):
            min_p_keeps_what_reaches_the_share(engine, case)
