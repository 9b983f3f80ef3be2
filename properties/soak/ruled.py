"""Rules about logits that requests of machines bring: drawn from their prompts, so that nothing else is drawn anew."""

from collections.abc import Sequence

from specsim.host.logit_rules import LogitRules
from specsim.properties.seeds import source_of
from specsim.simulation.models.ground_truth import LanguageModel, greedy_decode
from specsim.simulation.models.hash_model import HashModel

ONE_IN = 8
"""Of so many requests one has rules; the prompt says which, and what they are."""

LONGEST_PLAIN = 6
"""Tokens of the output without rules that bad words are taken from."""


def rules_for(model: LanguageModel, prompt: Sequence[int], max_new_tokens: int) -> LogitRules | None:
    """Return the rules of a request without a grammar, or None.

    Bad words are what it would output without any; penalties are for models whose logits make a distribution.
    """
    random = source_of(f"rules of {list(prompt)}")
    if random.randrange(ONE_IN):
        return None
    output = greedy_decode(model, prompt, min(max_new_tokens, LONGEST_PLAIN))
    begin, length = random.randrange(len(output)), random.choice((0, 1, 2, 2, 3))
    words = (tuple(output[begin : begin + length]),) if length else ()
    min_tokens = random.randint(0, min(4, max_new_tokens))
    if not isinstance(model, HashModel):
        return LogitRules(min_tokens=min_tokens, bad_words=words)
    return LogitRules(
        random.choice((0.0, 1.5, 4.0)),
        random.choice((0.0, 2.0, -1.0)),
        random.choice((1.0, 1.0, 2.0)),
        tuple((random.randrange(model.vocab_size), random.choice((6.0, -6.0))) for _ in range(random.randrange(2))),
        min_tokens,
        words,
    )
