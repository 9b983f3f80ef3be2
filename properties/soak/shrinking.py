"""A failing history made smaller by Hypothesis: fewer actions, a simpler machine, simpler requests.

What Hypothesis draws is a choice for each thing that may be left out or made simple: True keeps it. It begins with
the history that was found, in which everything is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import compress
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.config import SpecConfig
from specsim.conformance.isolation.heartbeat import Cut
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.quietly import shrinking_what_is_fed
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.history import Failure
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import Setup

MOST_REPLAYS = 400
"""Histories that are tried to make one smaller."""

KEEP = b"\xff"
"""What a choice to keep something is drawn from."""

CHOICES_OF_AN_ACTION = 16
"""Choices that an action takes at most, with its share of those that leave out several."""

History = tuple[Setup, tuple[Action, ...]]
Replay = Callable[[Setup, Sequence[Action]], Failure | None]
"""Runs a history again; returns where it fails, if it does."""

SHORT_CHAIN = SpecConfig(1, 1, path_width(1))

SIMPLER_SETUPS: tuple[Callable[[Setup], Setup], ...] = (
    lambda setup: setup.having(is_overlapped=False),
    # NOTE: nothing that is queued runs before the host waits for it, and no result is read before the next launch.
    lambda setup: setup.having(stream_seed=1, depth=None),
    lambda setup: setup.having(has_prefix_cache=False),
    lambda setup: setup.having(prefill_chunk=None),
    lambda setup: setup.having(prefill_chunk=setup.schedule.prefill_chunk and setup.room.page_size),
    lambda setup: setup.having(page_size=1),
    lambda setup: setup.having(adapting=None, others=()),
    lambda setup: setup.having(num_ranks=1),
    lambda setup: setup.having(is_padded=False, num_ranks=1),
    lambda setup: setup if setup.candidates or setup.has_parameters else setup.having(sizes=SHORT_CHAIN),
    lambda setup: setup.having(max_batch=1),
    lambda setup: setup.having(max_batch=min(setup.room.max_batch, 2)),
)
"""Each makes one thing of a machine simple, or returns it as it is."""

PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "eos_token": None,
        "stop_tokens": (),
        "stop_strings": (),
        "min_new_tokens": 0,
        "context_limit": None,
        "sampling": None,
        "processor": None,
        "grammar": None,
        "max_new_tokens": 1,
    }
)
"""What a request has that nothing was asked of."""


def shrink(failure: Failure, replay: Replay, most_replays: int = MOST_REPLAYS) -> Failure:
    """Return a history of fewer actions that fails in the same way, on a machine that is as simple as possible."""
    smallest, num_left = failure, most_replays
    passed: list[History] = []
    last: History | None = None
    single = tuple(one for action in failure.actions for one in action.single())

    def law(history: History) -> None:
        nonlocal smallest, num_left, last
        if history in passed:
            return
        if history != last:
            if not num_left:
                raise Cut
            num_left -= 1
            found = replay(*history)
            if found is None or found.kind != failure.kind:
                passed.append(history)
                return
            smallest, last = found, history
        raise AssertionError(smallest.error)

    test: Any = shrinking_what_is_fed()(given(_histories(failure.setup, single))(law))
    # NOTE: Hypothesis raises what the smallest history does, and what a search ends with that took too long.
    with suppress(Exception, Cut):
        test.hypothesis.fuzz_one_input(KEEP * (len(SIMPLER_SETUPS) + CHOICES_OF_AN_ACTION * (1 + len(single))))
    with suppress(Exception, Cut):
        test()
    return smallest


@composite
def _histories(draw: DrawFn, setup: Setup, actions: tuple[Action, ...]) -> History:
    """Draw a history with some things of another one left out or simple, by as many choices in any case.

    Hypothesis tries what is drawn last first: runs of actions, long ones first, then single ones, then what is simple.
    """
    for simplify in SIMPLER_SETUPS:
        if not draw(st.booleans()):
            setup = simplify(setup)
    simpler = [draw(_simpler(action)) for action in actions]
    is_kept = [True] * len(actions)
    length = 1
    while length <= len(actions):
        for start in range(0, len(actions), length):
            if not draw(st.booleans()):
                is_kept[start : start + length] = [False] * len(is_kept[start : start + length])
        length *= 2
    return setup, tuple(compress(simpler, is_kept))


@composite
def _simpler(draw: DrawFn, action: Action) -> Action:
    """Draw the same action with some things of its request simple, and perhaps of a shorter prompt."""
    asked = action.argument
    if not isinstance(asked, Arrival):
        return action
    for name, plain in PLAIN.items():
        if vars(asked)[name] != plain and not draw(st.booleans()):
            asked = replace(asked, **{name: plain})
    for length in {1, len(asked.prompt) // 2} - {0, len(asked.prompt)}:
        if not draw(st.booleans()):
            asked = replace(asked, prompt=asked.prompt[-length:])
    return Action(action.rule, replace(asked, max_new_tokens=max(asked.max_new_tokens, asked.min_new_tokens)))
