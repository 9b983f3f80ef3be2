"""What an iteration costs, as a file has it: times of forwards over sizes, the rest of an iteration, and memory.

The same file serves ``specsim tune`` and ``specsim simulate --verify-costs``.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from specsim.config import SpecConfig
from specsim.host.budget import CapturedTimes, Costs, StepRates, StepTimes
from specsim.rejection import Reason, SpecRejection, contradiction
from specsim.simulation.memory import required_row_width
from specsim.simulation.pools import decode_sizes

SCHEMA = "specsim.costs/1"

MOST_TIME = 3600.0
"""Seconds of a forward at most: a file in milliseconds or microseconds shows."""


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of a forward by requests, by tokens of each, and by the length of their texts; linear in between.

    Parameters
    ----------
    requests, tokens, lengths : tuple of int
        Probes, ascending from 1.
    seconds : tuple
        [request][token][length], above 0.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a gap, or a time that none was measured as.
    """

    requests: tuple[int, ...]
    tokens: tuple[int, ...]
    lengths: tuple[int, ...]
    seconds: tuple[tuple[tuple[float | None, ...], ...], ...]

    def check(self, what: str) -> None:
        """Raise SpecRejection unless every size has a time."""
        for axis in ("requests", "tokens", "lengths"):
            probes = getattr(self, axis)
            if not probes or probes[0] < 1 or any(left >= right for left, right in pairwise(probes)):
                raise contradiction(f"{what}.{axis}", [*probes], "ascending whole numbers from 1", "they are looked up")
        _check_count(f"{what}.seconds", self.seconds, len(self.requests), "requests")
        for request, of_request in zip(self.requests, self.seconds, strict=True):
            at = f"{what}.seconds at {request} requests"
            _check_count(at, of_request, len(self.tokens), "tokens")
            for token, of_token in zip(self.tokens, of_request, strict=True):
                _check_count(f"{at} of {token} tokens", of_token, len(self.lengths), "lengths")
                for length, time in zip(self.lengths, of_token, strict=True):
                    place = f"{at} of {token} tokens after {length}"
                    if time is None:
                        raise contradiction(place, "null", "a time", "a grid has no gaps")
                    if not 0 < time < MOST_TIME:
                        expected = f"above 0 and below {MOST_TIME:g}"
                        raise contradiction(place, time, expected, "it is the time of a forward in seconds")

    def at(self, num_requests: float, num_tokens: float, length: float) -> float:
        """Return the seconds at some sizes; outside of what was measured those of the nearest size."""
        total = 0.0
        for request, of_requests in _weights(self.requests, num_requests):
            for token, of_tokens in _weights(self.tokens, num_tokens):
                for place, of_lengths in _weights(self.lengths, length):
                    total += of_requests * of_tokens * of_lengths * float(self.seconds[request][token][place] or 0)
        return total

    def lacks(self, num_requests: int, num_tokens: int, length: int) -> str:
        """Return which size lies outside of what was measured, and what was; empty if none does."""
        sizes = (("requests", num_requests), ("tokens", num_tokens), ("lengths", length))
        for axis, size in sizes:
            probes = getattr(self, axis)
            if not probes[0] <= size <= probes[-1]:
                return f"{size} {axis}, but {probes[0]} to {probes[-1]} were measured"
        return ""


class Rest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of an iteration but for its forwards, as a sum.

    Parameters
    ----------
    iteration : float
        Of every iteration.
    step : float
        Of each step that is drafted.
    node : float
        Of each node of each request.
    beam : float
        Of each beam of each request in each step.
    """

    iteration: float
    step: float = 0.0
    node: float = 0.0
    beam: float = 0.0

    def check(self, what: str) -> None:
        """Raise SpecRejection unless all of them are times."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 <= value < MOST_TIME:
                raise contradiction(f"{what}.{name}", value, f"0 to {MOST_TIME:g}", "it is a time in seconds")


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """KV slots that there are for texts and drafts, and how many of them are a page."""

    slots: int
    page_size: int = 1

    def check(self, what: str) -> None:
        """Raise SpecRejection unless both count something."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise contradiction(f"{what}.{name}", getattr(self, name), "at least 1", "it counts slots")

    def requests_that_fit(self, config: SpecConfig, length: int) -> int:
        """Return how many requests of a length fit, with the slots that the worker keeps allocated past each text."""
        return self.slots // required_row_width(length, decode_sizes(config), self.page_size)


@dataclass(frozen=True)
class Shape:
    """What an iteration runs: sizes of its drafts, and how many forwards of the draft over beams and over nodes."""

    topk: int
    num_steps: int
    num_draft_tokens: int
    step_forwards: int
    extend_forwards: int

    @classmethod
    def of(cls, config: SpecConfig) -> "Shape":
        """Return that of drafts of a step a level, the first of which the catching up has made."""
        steps = config.num_steps
        return cls(config.topk, steps, config.num_draft_tokens, max(steps - 1, 0), int(steps > 0))


class IterationTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an iteration is made of: the target's forward, the draft's forwards, and all the rest.

    Parameters
    ----------
    target : Grid
        A forward over the nodes of each request.
    rest : Rest
        Trees, acceptance, moves, launches.
    draft_step : Grid or None
        A forward over the beams of each request; None where the draft has none.
    draft_extend : Grid or None
        The forward by which the draft catches up, over as many tokens as there are nodes; None likewise.
    """

    target: Grid
    rest: Rest
    draft_step: Grid | None = None
    draft_extend: Grid | None = None

    def check(self, what: str) -> None:
        """Raise SpecRejection unless all parts are whole."""
        for name in ("target", "draft_step", "draft_extend", "rest"):
            part = getattr(self, name)
            if part is not None:
                part.check(f"{what}.{name}")

    def iteration(self, shape: Shape, num_requests: int, length: int, rows: float | None = None) -> float:
        """Return the seconds of a whole iteration of so many requests after so long texts.

        The target runs over ``rows`` of the batch, by default over all nodes.
        """
        nodes, rest = shape.num_draft_tokens, self.rest
        seconds = rest.iteration + rest.step * shape.num_steps + rest.node * num_requests * nodes
        seconds += rest.beam * num_requests * shape.topk * shape.num_steps
        if self.draft_step is not None and shape.step_forwards:
            seconds += shape.step_forwards * self.draft_step.at(num_requests, shape.topk, length)
        if self.draft_extend is not None and shape.extend_forwards:
            seconds += shape.extend_forwards * self.draft_extend.at(num_requests, nodes, length)
        return seconds + self.target.at(num_requests, nodes if rows is None else rows / num_requests, length)

    def plain(self, num_requests: int, length: int) -> float:
        """Return the seconds of a token of each request without drafts."""
        return self.iteration(Shape(1, 0, 1, 0, 0), num_requests, length)

    def lacks(self, shape: Shape, num_requests: int, length: int) -> str:
        """Return what of an iteration was not measured; empty if everything was."""
        nodes = shape.num_draft_tokens
        asked = (
            ("target", self.target, nodes, 1),
            ("draft_extend", self.draft_extend, nodes, shape.extend_forwards),
            ("draft_step", self.draft_step, shape.topk, shape.step_forwards),
        )
        for name, grid, tokens, num_forwards in asked:
            if num_forwards and grid is None:
                return f"the costs have no {name}"
            missing = "" if grid is None or not num_forwards else grid.lacks(num_requests, tokens, length)
            if missing:
                return f"{name} of {missing}"
        return ""


@dataclass(frozen=True)
class ScheduledTimes:
    """The same for scheduled verification: iterations of one shape whose target runs over the rows of a budget."""

    times: IterationTimes
    shape: Shape
    length: int

    def yields(self, num_tokens: float, num_requests: int, num_rows: int) -> float:
        """Return tokens per second, given those of a step."""
        return num_tokens / self.times.iteration(self.shape, max(num_requests, 1), self.length, num_rows)


class CostFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of costs: one of four tables, and what it was measured with.

    ``error`` is how far a time that the file predicts may lie from the measured one, as a share of it.
    """

    schema: str = SCHEMA
    device: str = ""
    model: str = ""
    step_rates: StepRates | None = None
    step_times: StepTimes | None = None
    captured_times: CapturedTimes | None = None
    iteration_times: IterationTimes | None = None
    memory: Memory | None = None
    error: float = 0.0

    @property
    def tables(self) -> list[Costs | IterationTimes]:
        """The tables that it has."""
        given = (self.step_rates, self.step_times, self.captured_times, self.iteration_times)
        return [one for one in given if one is not None]


TABLES = ("step_rates", "step_times", "captured_times", "iteration_times")


def parse_costs(content: bytes) -> CostFile:
    """Return what a file of costs has.

    Raises
    ------
    ValueError
        It is no JSON document of this form; the message says where.
    SpecRejection
        BAD_CONFIGURATION: a table has a gap, a negative time, or sizes that do not ascend; or there is not one table.
    """
    try:
        costs = msgspec.json.decode(content, type=CostFile)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if costs.schema != SCHEMA:
        raise SpecRejection(Reason.BAD_CONFIGURATION, "schema", costs.schema, SCHEMA, "no other form is known")
    if len(costs.tables) != 1:
        raise ValueError(f"should have one table, {', '.join(TABLES)}")
    if costs.iteration_times is not None:
        costs.iteration_times.check("iteration_times")
    if costs.memory is not None:
        costs.memory.check("memory")
    if not 0 <= costs.error < 1:
        raise contradiction("error", costs.error, "0 to 1", "it is a share of a time")
    return costs


def content_of(costs: CostFile) -> bytes:
    """Return the file that ``parse_costs`` reads, without the tables that it lacks."""
    document = {name: value for name, value in msgspec.to_builtins(costs).items() if value is not None}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _check_count(what: str, given: Sequence[Any], expected: int, of: str) -> None:
    if len(given) != expected:
        raise contradiction(f"{what}, entries", len(given), str(expected), f"there is one for each of its {of}")


def _weights(probes: Sequence[int], size: float) -> list[tuple[int, float]]:
    """Return the probes around a size and their shares of it."""
    if math.isnan(size) or size <= probes[0]:
        return [(0, 1.0)]
    if size >= probes[-1]:
        return [(len(probes) - 1, 1.0)]
    place = bisect_right(probes, size)
    share = (size - probes[place - 1]) / (probes[place] - probes[place - 1])
    return [(place - 1, 1 - share), (place, share)] if share else [(place - 1, 1.0)]
