"""How the tokens of one request are chosen: its own processor and rules, a grammar, and chance or not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specsim.host.grammar import Grammar
from specsim.host.logit_rules import LogitRules
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
        How many alternatives to each output token the user gets, with log-probabilities; None for nothing.
    token_ids_logprob : tuple of int
        Tokens whose log-probabilities in the place of each output token the user gets as well.
    has_original_logprobs : bool
        Whether log-probabilities are those at temperature 1, whatever the request is sampled at.
    returns_hidden_states : bool
        Whether the user is handed the hidden state that each output token was chosen from.
    rules : LogitRules or None
        Change the logits after the processor, by what the request has output.
    stops : frozenset of int
        The tokens that a minimum length of the rules forbids; empty without rules.
    output : tuple of int
        What the request has output when it joins, where its rules go on from; empty without rules.
    """

    sampling: SamplingParameters | None = None
    processor: LogitProcessor | None = None
    matcher: Grammar | None = None
    top_logprobs: int | None = None
    token_ids_logprob: tuple[int, ...] = ()
    has_original_logprobs: bool = False
    returns_hidden_states: bool = False
    rules: LogitRules | None = None
    stops: frozenset[int] = frozenset()
    output: tuple[int, ...] = ()

    @property
    def wants_report(self) -> bool:
        """Whether the user wants a report on output tokens."""
        return self.top_logprobs is not None or self.returns_hidden_states

    @property
    def is_constrained(self) -> bool:
        """Whether the logits are changed on the host before a token is chosen."""
        return self.processor is not None or self.matcher is not None


def any_rules(choices: Sequence[TokenChoice]) -> bool:
    """Return whether a request of a batch has rules."""
    return any(choice.rules is not None for choice in choices)


UNCONSTRAINED = TokenChoice()
"""The choice of a request that asks for nothing: greedy, from the model's own logits."""
