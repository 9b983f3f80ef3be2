"""Faults of custom logit processors."""

from typing import Any

from specsim.properties.mutants.record import Function, Mutant, Named, answering


def _one_row_a_request(correct: Function, arguments: Named) -> Any:
    logits, processors = arguments["logits"], arguments["processors"]
    for request, processor in enumerate(processors):
        if processor is not None:
            logits[request : request + 1] = processor(logits[request : request + 1].copy())


def _first_for_everybody(correct: Function, arguments: Named) -> Any:
    processors = arguments["processors"]
    return correct(**{**arguments, "processors": [next(iter(processors), None)] * len(processors)})


def _called_once_a_row(correct: Function, arguments: Named) -> Any:
    logits, width = arguments["logits"], arguments["num_draft_tokens"]
    for row in range(len(logits)):
        processor = arguments["processors"][row // width]
        if processor is not None:
            logits[row : row + 1] = processor(logits[row : row + 1].copy())


def _result_is_dropped(correct: Function, arguments: Named) -> Any:
    correct(**{**arguments, "logits": arguments["logits"].copy()})


def _first_row_alone(correct: Function, arguments: Named) -> Any:
    logits, width = arguments["logits"], arguments["num_draft_tokens"]
    raw = logits.copy()
    correct(**arguments)
    for row in range(len(logits)):
        if row % width:
            logits[row] = raw[row]


_NAME = "apply_logit_processors"
MUTANTS = (
    Mutant("OWN-128", _NAME, "A processor sees row b instead of the rows of request b.", answering(_one_row_a_request)),
    Mutant("OWN-129", _NAME, "The first request's processor is used for all.", answering(_first_for_everybody)),
    Mutant("OWN-310", _NAME, "A processor is called for every row.", answering(_called_once_a_row)),
    Mutant("OWN-451", _NAME, "Only the root's row is processed.", answering(_first_row_alone)),
    Mutant("OWN-311", _NAME, "What processors return is dropped.", answering(_result_is_dropped)),
)
