"""The adaptive controller: how many steps to draft, from how many drafts were accepted (semantics F.6)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from specsim.counts import path_width
from specsim.rejection import contradiction


@dataclass(frozen=True)
class AdaptiveSlot:
    """The steps that batches of one size range choose from.

    Parameters
    ----------
    batch_size : int
        Least padded batch size of the range.
    candidates : tuple of int
        Numbers of steps, ascending, each at least 0: without a step a batch proposes nothing, and its verifies output
        one token a request.
    down, up : float
        Hysteresis: how far the thresholds of a lower and of a higher candidate move. A range that does not say
        otherwise goes down later than its candidates alone would have it.
    """

    batch_size: int
    candidates: tuple[int, ...]
    down: float = -0.25
    up: float = 0.0

    def __post_init__(self) -> None:
        ascending = all(left < right for left, right in pairwise(self.candidates))
        if not self.candidates or self.candidates[0] < 0 or not ascending:
            raise contradiction("candidates", self.candidates, "ascending whole numbers from 0", "steps are tried")

    def start(self, initial_steps: int) -> int:
        """Return the candidate that a range starts with: the initial one, or the middle one where that is missing."""
        return initial_steps if initial_steps in self.candidates else self.candidates[len(self.candidates) // 2]


@dataclass(frozen=True)
class AdaptiveConfig:
    """Ranges of batch sizes, and how fast the controller follows.

    Parameters
    ----------
    slots : tuple of AdaptiveSlot
        Ascending by batch size.
    alpha : float
        Weight of the latest mean in the moving average.
    warmup, interval : int
        Verifies of a range before its first decision, and from one decision to the next.
    ceiling : float
        A decision that does not raise the steps goes down to this multiple of the average too; 0 for no ceiling.
    """

    slots: tuple[AdaptiveSlot, ...] = (
        AdaptiveSlot(1, (1, 3, 7)),
        AdaptiveSlot(8, (1, 3), down=0.0),
        AdaptiveSlot(32, (1,), down=0.0),
    )
    alpha: float = 0.2
    warmup: int = 10
    interval: int = 5
    ceiling: float = 0.0

    def __post_init__(self) -> None:
        keys = [slot.batch_size for slot in self.slots]
        if not keys or any(left >= right for left, right in pairwise(keys)):
            raise contradiction("slots", keys, "one or more, ascending by batch size", "a batch has one slot")
        if not 0.0 <= self.alpha <= 1.0:
            raise contradiction("alpha", self.alpha, "0 to 1", "it weighs a mean")
        if self.warmup < 0 or self.interval < 1:
            raise contradiction("warmup, interval", (self.warmup, self.interval), "at least 0 and 1", "they are counts")
        if not 0.0 <= self.ceiling < math.inf:
            raise contradiction("ceiling", self.ceiling, "finite and at least 0", "it is a multiple of a mean")

    @property
    def candidates(self) -> frozenset[int]:
        """Return the candidates of all ranges."""
        return frozenset(steps for slot in self.slots for steps in slot.candidates)


@dataclass(frozen=True)
class AdaptiveState:
    """What the controller remembers of one range: its steps, the moving average of accepted drafts, and verifies."""

    num_steps: int
    ema: float
    count: int = 0

    @staticmethod
    def initial(num_steps: int) -> "AdaptiveState":
        """Return the state before the first verify."""
        return AdaptiveState(num_steps, float(num_steps - 1))


def adapt_num_steps(
    state: AdaptiveState, num_accepted_drafts: Sequence[int], slot: AdaptiveSlot, config: AdaptiveConfig
) -> AdaptiveState:
    """Return the state of a range after one verify.

    Parameters
    ----------
    state : AdaptiveState
        Before the verify; ``num_steps`` is one of the slot's candidates.
    num_accepted_drafts : sequence of int
        One count a request of the batch, the bonus token excluded; without requests nothing happens.
    slot : AdaptiveSlot
        The range of the batch.
    config : AdaptiveConfig
        Weights and intervals.

    Returns
    -------
    state : AdaptiveState
        Downward steps are tried before upward ones, each as often as they apply.

    Notes
    -----
    Source: semantics F.6.
    """
    if not num_accepted_drafts:
        return state
    mean = sum(num_accepted_drafts) / len(num_accepted_drafts)
    ema = (1.0 - config.alpha) * state.ema + config.alpha * mean
    count = state.count + 1
    followed = replace(state, ema=ema, count=count)
    if count <= config.warmup or (count - config.warmup) % config.interval:
        return followed
    return replace(followed, num_steps=_decide(state.num_steps, ema, slot, config.ceiling))


def route_batch_size(batch_size: int, graph_sizes: Sequence[int], slot_sizes: Sequence[int]) -> int:
    """Return the batch size that names the range of a batch.

    Parameters
    ----------
    batch_size : int
        Live requests.
    graph_sizes : sequence of int
        Batch sizes of the captured graphs, ascending; a batch is padded to the least that holds it, if one does.
    slot_sizes : sequence of int
        Batch sizes that name a range, ascending.

    Returns
    -------
    slot_size : int
        The largest that is not above the padded batch, else the least.

    Notes
    -----
    Source: semantics F.6.
    """
    padded = min((size for size in graph_sizes if size >= batch_size), default=batch_size)
    return max((size for size in slot_sizes if size <= padded), default=slot_sizes[0])


Adapt = Callable[[AdaptiveState, Sequence[int], AdaptiveSlot, AdaptiveConfig], AdaptiveState]
Route = Callable[[int, Sequence[int], Sequence[int]], int]


@dataclass
class AdaptiveController:
    """The states of all ranges.

    Parameters
    ----------
    initial_steps : int
        One of the candidates.
    config : AdaptiveConfig
        Ranges and weights.
    graph_sizes : tuple of int
        Batch sizes of the captured graphs, ascending.
    adapt, route : callable
        Who decides: ``adapt_num_steps`` and ``route_batch_size``, or those of another implementation.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: ``initial_steps`` is no candidate.
    """

    initial_steps: int
    config: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    graph_sizes: tuple[int, ...] = ()
    adapt: Adapt = adapt_num_steps
    route: Route = route_batch_size
    states: dict[int, AdaptiveState] = field(init=False)

    def __post_init__(self) -> None:
        require_candidate(self.initial_steps, self.config)
        self.states = {
            slot.batch_size: AdaptiveState.initial(slot.start(self.initial_steps)) for slot in self.config.slots
        }

    def num_steps(self, batch_size: int) -> int:
        """Return how many steps a batch of that size drafts."""
        return self.states[self._route(batch_size)].num_steps

    def num_draft_tokens(self, batch_size: int) -> int:
        """Return how many nodes a batch of that size sends to the target: a chain and its root."""
        return path_width(self.num_steps(batch_size))

    def observe(self, num_accepted_drafts: Sequence[int]) -> None:
        """Take the counts of one verify; a delayed one is observed when it arrives, with the batch that it had."""
        if not num_accepted_drafts:
            return
        key = self._route(len(num_accepted_drafts))
        slot = next(slot for slot in self.config.slots if slot.batch_size == key)
        self.states[key] = self.adapt(self.states[key], num_accepted_drafts, slot, self.config)

    def _route(self, batch_size: int) -> int:
        return self.route(batch_size, self.graph_sizes, [slot.batch_size for slot in self.config.slots])


def require_candidate(initial_steps: int | None, config: AdaptiveConfig) -> None:
    """Raise unless the initial number of steps is a candidate of some range.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """
    if initial_steps not in config.candidates:
        expected = f"one of {', '.join(map(str, sorted(config.candidates)))}"
        raise contradiction("num_steps", initial_steps, expected, "the adaptive controller starts at a candidate")


def _decide(num_steps: int, ema: float, slot: AdaptiveSlot, ceiling: float) -> int:
    candidates = slot.candidates
    place = candidates.index(num_steps)
    while place > 0 and ema <= candidates[place - 1] - 0.5 + slot.down:
        place -= 1
    while place + 1 < len(candidates) and ema > candidates[place] - 0.5 + slot.up:
        place += 1
    if ceiling > 0 and candidates[place] <= num_steps:
        cap = max(1, math.ceil(ema * ceiling))
        while place > 0 and candidates[place] > cap:
            place -= 1
    return candidates[place]
