"""What a worker tells a store of n-grams: the ends of texts, each as long as a path."""

from specsim.host.ngram import NgramParameters
from specsim.simulation.requests import Request

BRANCHES = 2
"""Stands for the branching factor where it says only that accepted nodes need not lie at the front."""


def last_tokens(request: Request, parameters: NgramParameters) -> list[int]:
    """Return the end of a text, prompt and output, that fills a path of the store."""
    depth = parameters.max_depth
    output = request.output[-depth:]
    return [*request.prompt, *output][-depth:] if len(output) < depth else list(output)
