"""What somebody asks of an engine: a prompt, when the output ends, and how its tokens are chosen."""

from dataclasses import replace
from random import Random

from specsim.host.sampling import ALL_TOKENS, SamplingParameters
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.ruled import rules_for
from specsim.properties.soak.setups import Setup
from specsim.properties.strategies.logit_scenes import HALVING_TEMPERATURE
from specsim.simulation.requests import TOKEN_TEXT

REPORTED, HANDED, ONE_IN = {0: 0, 1: 2}, {1, 2}, 48
"""Of every 48 requests one gets a report on its tokens, one of two alternatives too, and two of hidden states.

The prompt says which.
"""


def draw_arrival(random: Random, setup: Setup) -> Arrival:
    """Draw a request; most end by their length, the others by any other rule that holds for them."""
    prompt, max_new_tokens = (_draw_brief_text if setup.texts.is_brief else _draw_text)(random, setup)
    eos_token, context_limit = None, None
    stop_tokens: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    kind = random.randrange(8)
    if kind == 0:
        eos_token = _token(random, setup)
    elif kind == 1:
        stop_tokens = (_token(random, setup), _token(random, setup), _token(random, setup))
    elif kind == 2:
        stop_strings = tuple(TOKEN_TEXT(_token(random, setup)) for _ in range(3))
    elif kind == 3:
        context_limit = len(prompt) + random.randint(1, max_new_tokens)
    sampling = _draw_sampling(random) if setup.texts.has_sampling and random.randrange(2) else None
    is_constrained = setup.texts.has_constraints and random.randrange(2) == 0
    asked = Arrival(
        prompt=prompt,
        max_new_tokens=max_new_tokens,
        eos_token=eos_token,
        stop_tokens=stop_tokens,
        stop_strings=stop_strings,
        min_new_tokens=random.choice((0, 0, min(2, max_new_tokens))),
        context_limit=context_limit,
        sampling=sampling,
        processor=Shifted(random.randint(1, 5)) if is_constrained and random.randrange(2) else None,
        grammar=_draw_grammar(random, setup) if is_constrained else None,
        top_logprobs=REPORTED.get(sum(prompt) % ONE_IN),
        returns_hidden_states=sum(prompt) % ONE_IN in HANDED,
    )
    return with_rules(asked, setup)


def with_rules(asked: Arrival, setup: Setup) -> Arrival:
    """Return a request with the rules that go with its prompt; grammars and few tokens leave no room for them."""
    is_narrow = asked.grammar is not None or setup.model.vocab_size < VOCABULARY
    rules = None if is_narrow else rules_for(setup.model, asked.prompt, asked.max_new_tokens)
    return replace(asked, logit_rules=rules)


def _draw_text(random: Random, setup: Setup) -> tuple[tuple[int, ...], int]:
    """Return a prompt, which may begin like others, and how many tokens may follow."""
    longest = setup.texts.longest_prompt
    length = min(random.choice((1, 2, 3, 5, 8, longest, random.randint(1, longest))), longest)
    num_shared = random.choice((0, length // 2, length - 1)) if setup.texts.shared else 0
    longest = setup.texts.longest_output
    return _begin(random, setup, length, num_shared), random.choice((1, longest, longest, random.randint(1, longest)))


def _draw_brief_text(random: Random, setup: Setup) -> tuple[tuple[int, ...], int]:
    length = random.choice((1, 2, setup.texts.longest_prompt))
    return _begin(random, setup, length, length - 1), random.choice((1, 1, setup.texts.longest_output))


def _begin(random: Random, setup: Setup, length: int, num_shared: int) -> tuple[int, ...]:
    """Return a prompt of which so many tokens are shared."""
    return (*setup.texts.shared[:num_shared], *(_token(random, setup) for _ in range(length - num_shared)))


def _token(random: Random, setup: Setup) -> int:
    return random.randrange(setup.model.vocab_size)


def _draw_sampling(random: Random) -> SamplingParameters:
    return SamplingParameters(
        temperature=random.choice((HALVING_TEMPERATURE, 1.0, 4.0)),
        top_k=random.choice((ALL_TOKENS, 2, 5)),
        top_p=random.choice((1.0, 0.85)),
        min_p=random.choice((0.0, 0.03)),
        seed=random.randrange(1 << 32),
    )


def _draw_grammar(random: Random, setup: Setup) -> Automaton:
    return Automaton(
        setup.model.vocab_size, random.randint(2, 4), 0.75, random.choice((8, 1000)), random.randrange(1 << 32)
    )
