"""How the tokens of one request are chosen: its own processor, a grammar, and chance or not."""

from collections.abc import Callable
from dataclasses import dataclass

from specsim.host.grammar import Grammar
from specsim.host.processors import LogitProcessor
from specsim.host.sampling import SamplingParameters

StartGrammar = Callable[[], Grammar]
"""Returns a matcher that has read nothing."""


@dataclass(frozen=True)
class TokenChoice:
    """What is done with the logits of a request before a token is chosen, and how it is chosen.

    Parameters
    ----------
    sampling : SamplingParameters or None
        None is greedy.
    processor : callable or None
        Changes the request's logits before everything else.
    matcher : Grammar or None
        Has read the whole output; only tokens that it allows are chosen.
    top_logprobs : int or None
        How many alternatives to each output token the user is told of, with log-probabilities; None for nothing.
    """

    sampling: SamplingParameters | None = None
    processor: LogitProcessor | None = None
    matcher: Grammar | None = None
    top_logprobs: int | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether the logits are changed on the host before a token is chosen."""
        return self.processor is not None or self.matcher is not None


UNCONSTRAINED = TokenChoice()
"""The choice of a request that asks for nothing: greedy, from the model's own logits."""
