"""Faults of custom logit processors."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Named, answering, mutants_of, with_arguments


def _one_row_a_request(correct: Function, arguments: Named) -> Any:
    logits, processors = arguments["logits"], arguments["processors"]
    for request, processor in enumerate(processors):
        if processor is not None:
            logits[request : request + 1] = processor(logits[request : request + 1].copy())


def _called_once_a_row(correct: Function, arguments: Named) -> Any:
    logits, width = arguments["logits"], arguments["num_draft_tokens"]
    for row in range(len(logits)):
        processor = arguments["processors"][row // width]
        if processor is not None:
            logits[row : row + 1] = processor(logits[row : row + 1].copy())


def _first_row_alone(correct: Function, arguments: Named) -> Any:
    logits, width = arguments["logits"], arguments["num_draft_tokens"]
    raw = logits.copy()
    correct(**arguments)
    for row in range(len(logits)):
        if row % width:
            logits[row] = raw[row]


MUTANTS = mutants_of(
    "apply_logit_processors",
    ("OWN-128", "A processor sees row b instead of the rows of request b.", answering(_one_row_a_request)),
    (
        "OWN-129",
        "The first request's processor is used for all.",
        with_arguments(processors=lambda own: [next(iter(own), None)] * len(own)),
    ),
    ("OWN-310", "A processor is called for every row.", answering(_called_once_a_row)),
    ("OWN-451", "Only the root's row is processed.", answering(_first_row_alone)),
    ("OWN-311", "What processors return is dropped.", with_arguments(logits=np.copy)),
)
