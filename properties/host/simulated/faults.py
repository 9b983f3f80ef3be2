"""Faults in how many tokens a simulated verify outputs."""

import math
from typing import Any

from specsim.properties.mutants.record import Function, Mutant, Named, answering, with_arguments


def _rounded_down(correct: Function, arguments: Named) -> Any:
    if arguments["method"] != "multinomial":
        return correct(**arguments)
    whole = math.floor(arguments["mean"] + arguments["sample"])
    return correct(**arguments) and min(max(whole, 1), arguments["num_steps"] + 1)


def _shares_swapped(correct: Function, arguments: Named) -> Any:
    if arguments["method"] == "match-expected":
        mean = arguments["mean"]
        arguments["mean"] = mean if mean <= 0 else 2 * math.floor(mean) + 1 - mean
    return correct(**arguments)


_DRAW = "simulated_num_tokens"

MUTANTS = (
    Mutant("OWN-186", _DRAW, "A normal sample is rounded down.", answering(_rounded_down)),
    Mutant("OWN-187", _DRAW, "The shares of the two neighbours are swapped.", answering(_shares_swapped)),
    Mutant("OWN-188", _DRAW, "A count may exceed the path.", with_arguments(num_steps=lambda steps: steps + 1)),
    Mutant("OWN-189", _DRAW, "A mean of 0 simulates too.", with_arguments(mean=lambda mean: max(mean, 1.0))),
)
