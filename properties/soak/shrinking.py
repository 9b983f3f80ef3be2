"""A failing history made smaller: fewer actions, a simpler machine, simpler requests."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.history import Failure, replay
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.subject import Subject

SHORT_CHAIN = SpecConfig(1, 1, path_width(1))

MOST_REPLAYS = 400
"""Histories that are tried to make one smaller."""


def shrink(subject: Subject, failure: Failure, most_replays: int = MOST_REPLAYS) -> Failure:
    """Return a history of fewer actions that fails too, on a machine that is as simple as possible.

    Runs of actions are left out, long ones first, then single ones; then the machine and what is asked of it are made
    simpler, which may let more actions go. What fails may be another thing in the end; the shortest history to any
    failure is worth more than the first one.
    """
    search = _Search(subject, failure, most_replays)
    size = None
    while size != search.size and search.num_left:
        size = search.size
        search.leave_actions_out()
        search.simplify()
    return search.smallest


class _Search:
    """The smallest failing history so far, and how often another one may be tried."""

    def __init__(self, subject: Subject, failure: Failure, most_replays: int) -> None:
        single = tuple(one for action in failure.actions for one in action.single())
        self.smallest = replace(failure, actions=single)
        self.num_left = most_replays
        self.num_simplified = 0
        self._subject = subject

    @property
    def size(self) -> tuple[int, int]:
        """How much is left; it changes with everything that is found."""
        return len(self.smallest.actions), self.num_simplified

    def leave_actions_out(self) -> None:
        """Try to leave out runs of actions, half of them first."""
        length = max(len(self.smallest.actions) // 2, 1)
        while length and self.num_left:
            start, is_smaller = len(self.smallest.actions), False
            while start > 0 and self.num_left:
                start = max(start - length, 0)
                actions = self.smallest.actions
                found = self._try(self.smallest.setup, actions[:start] + actions[start + length :])
                if found is not None and len(found.actions) < len(actions):
                    self.smallest, is_smaller = found, True
            if not (is_smaller and length == 1):
                length //= 2

    def simplify(self) -> None:
        """Try one simpler machine after the other, and simpler requests."""
        for simplify in SIMPLER_SETUPS:
            setup = simplify(self.smallest.setup)
            if setup != self.smallest.setup:
                self._take(setup, self.smallest.actions)
        place = 0
        while place < len(self.smallest.actions):
            for simpler in _simpler_actions(self.smallest.actions[place]):
                actions = self.smallest.actions
                if place < len(actions):
                    self._take(self.smallest.setup, (*actions[:place], simpler, *actions[place + 1 :]))
            place += 1

    def _take(self, setup: Setup, actions: tuple[Action, ...]) -> None:
        """Take another history if it fails in the same way; one that is refused, or crashes, tells nothing new."""
        found = self._try(setup, actions)
        if found is not None and found.kind == self.smallest.kind and len(found.actions) <= len(self.smallest.actions):
            self.smallest = found
            self.num_simplified += 1

    def _try(self, setup: Setup, actions: tuple[Action, ...]) -> Failure | None:
        if not self.num_left:
            return None
        self.num_left -= 1
        return replay(self._subject, setup, actions)


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

_PLAIN: tuple[tuple[str, object], ...] = (
    ("eos_token", None),
    ("stop_tokens", ()),
    ("stop_strings", ()),
    ("min_new_tokens", 0),
    ("context_limit", None),
    ("sampling", None),
    ("processor", None),
    ("grammar", None),
    ("max_new_tokens", 1),
)
"""What a request has that nothing was asked of."""


def _simpler_actions(action: Action) -> Iterator[Action]:
    """Yield the same action with one thing of its request simple, or of a shorter prompt."""
    asked = action.argument
    if not isinstance(asked, Arrival):
        return
    for name, plain in _PLAIN:
        is_too_short = name == "max_new_tokens" and asked.min_new_tokens > 1
        if vars(asked)[name] != plain and not is_too_short:
            simpler: dict[str, object] = {name: plain}
            yield Action(action.rule, Arrival(**{**vars(asked), **simpler}))
    for length in (1, len(asked.prompt) // 2):
        if 0 < length < len(asked.prompt):
            yield Action(action.rule, replace(asked, prompt=asked.prompt[-length:]))
