"""A pipeline of stages in which all that travels is late by as much as an order of events says.

The first stage schedules, the last one decides. Every stage gets the commands of the first in their order and the
records of the last in theirs; which of the two a stage takes next is chosen, within what is true: a stage launches what
the one before it has launched, and takes the record of a round when the last stage has decided it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from specsim.host.stages import NO_DRAFT, LaunchedRow, Relay, RelayedRow, RequestKey, StageState
from specsim.properties.host.ranks.rounds import Decisions, Verified
from specsim.properties.host.ranks.strategy import Asked, Text
from specsim.properties.laws.checks import require
from specsim.topology import Topology

Pick = Callable[[Sequence[Hashable]], Any]

MOST_ROUNDS = 400
"""Rounds after which a run counts as one without an end."""

UNKNOWN = StageState(0, NO_DRAFT, (), (NO_DRAFT,), 0)
"""What is known of a request without a prefill."""

_JOIN, _LEAVE, _LAUNCH = "join", "leave", "launch"
_ABORT, _COMMAND, _RECORD = "abort", "command", "record"
"""What the first stage commands; what happens besides."""


class Read(NamedTuple):
    """What a stage reads of a request in a round: the text before its first position, and the tokens from there on."""

    text: Text
    start: int
    tokens: Text
    parents: tuple[int, ...]


@dataclass
class Round:
    """A round on its way through the pipeline."""

    number: int
    rows: tuple[LaunchedRow, ...]
    is_prefill: bool
    read: list[list[Read]] = field(default_factory=list)
    verified: dict[RequestKey, Verified] = field(default_factory=dict)


@dataclass
class Side:
    """One stage: its bookkeeping, its KV as tokens by position, and what is on its way to it."""

    number: int
    stage: Any
    kv: dict[RequestKey, list[int]] = field(default_factory=dict)
    in_flight: dict[RequestKey, int] = field(default_factory=dict)
    commands: deque[tuple[str, Any]] = field(default_factory=deque)
    records: deque[tuple[Relay, Round]] = field(default_factory=deque)


@dataclass(frozen=True)
class Played:
    """What came of a run: outputs by the number of the request, and which requests were aborted."""

    outputs: dict[int, Text]
    aborted: frozenset[int]


class Pipeline:
    """Plays the rounds of some requests on stages.

    Parameters
    ----------
    decisions : Decisions
        What the last stage decides by.
    make_stage : callable
        Takes the number of a stage and how many there are; returns a ``PipelineStage``.
    num_stages, num_rows : int
        Stages, and requests that run at a time.
    aborted : set of int
        The requests that end while a round of theirs is in flight.
    pick : callable
        Which of the events that can happen does.
    is_watched : bool
        Whether every stage is compared after every round.
    """

    def __init__(
        self,
        decisions: Decisions,
        make_stage: Callable[[int, int], Any],
        num_stages: int,
        num_rows: int,
        aborted: frozenset[int],
        pick: Pick,
        is_watched: bool,
    ) -> None:
        self.decisions = decisions
        self.sides = [Side(number, make_stage(number, num_stages)) for number in range(num_stages)]
        self.outputs: dict[int, Text] = {}
        self._aborted, self._done = aborted, set[int]()
        self._waiting = deque(enumerate(decisions.run.asked))
        self._running: dict[RequestKey, Asked] = {}
        self._generations = [0] * num_rows
        self._rounds: list[Round] = []
        self._decided: dict[RequestKey, StageState] = {}
        self._pick, self._is_watched = pick, is_watched

    def play(self) -> Played:
        """Play all events; return what was output.

        Raises
        ------
        AssertionError
            A stage differs from the last one, or never gets ready, where stages are compared; or the run has no end.
        """
        while events := self._events():
            event, *place = self._pick(list(events))
            events[(event, *place)]()
            require(len(self._rounds) < MOST_ROUNDS, "rounds of a run", len(self._rounds), f"below {MOST_ROUNDS}")
        for request in self._running:
            for side in self.sides:
                is_idle = request in side.kv and request not in side.in_flight
                is_ready = not is_idle or side.stage.is_ready(request)
                require(is_ready, _readiness(side, request), False, "True, as nothing of it is in flight there")
        require(not self._running, "requests that have not ended", [*self._running], "none")
        return Played(self.outputs, frozenset(self._done))

    def _events(self) -> dict[tuple[Hashable, ...], Callable[[], None]]:
        events: dict[tuple[Hashable, ...], Callable[[], None]] = {}
        if self._waiting and len(self._running) < len(self._generations):
            events[(_JOIN,)] = self._join
        first = self.sides[0]
        doomed = [one for one in self._running if one.request_id in self._aborted and one in first.in_flight]
        if doomed:
            events[(_ABORT,)] = partial(self._abort, doomed[0])
        ready = [request for request in self._running if self._is_ready(first, request)]
        if ready:
            events[(_LAUNCH,)] = partial(self._start_round, ready)
        for side in self.sides:
            if side.commands and self._can_take(side, *side.commands[0]):
                events[(_COMMAND, side.number)] = partial(self._take_command, side)
            if side.records:
                events[(_RECORD, side.number)] = partial(self._take_record, side)
        return events

    def _is_ready(self, side: Side, request: RequestKey) -> bool:
        """Return what a stage says; raise AssertionError if it is too early."""
        is_ready = bool(side.stage.is_ready(request))
        if is_ready and self._is_watched:
            last = side.in_flight.get(request)
            expected = f"False until the bonus token of round {last} is there"
            require(last is None, _readiness(side, request), is_ready, expected)
        return is_ready

    def _join(self) -> None:
        number, asked = self._waiting.popleft()
        row = min(set(range(len(self._generations))) - {request.row for request in self._running})
        self._generations[row] += 1
        request = RequestKey(number, row, self._generations[row])
        self._running[request], self.outputs[number], self._decided[request] = asked, (), UNKNOWN
        self._tell(_JOIN, request)

    def _abort(self, request: RequestKey) -> None:
        self._done.add(request.request_id)
        self._end(request)

    def _end(self, request: RequestKey) -> None:
        del self._running[request]
        self._tell(_LEAVE, request)

    def _start_round(self, ready: Sequence[RequestKey]) -> None:
        """Launch a round of requests that have the same width, in an order of its own."""
        widths = {request: self._width(request) for request in ready}
        chosen = [request for request in ready if widths[request] == widths[ready[0]]]
        turn = len(self._rounds) % len(chosen)
        fresh = widths[ready[0]] == 0
        rows = [LaunchedRow(one, len(self._running[one].prompt) if fresh else widths[one]) for one in chosen]
        launched = Round(len(self._rounds), tuple(rows[turn:] + rows[:turn]), fresh)
        self._rounds.append(launched)
        self._tell(_LAUNCH, launched)

    def _width(self, request: RequestKey) -> int:
        """Return how many nodes a round of a request has; 0 of one without a prefill."""
        if not self.outputs[request.request_id]:
            return 0
        return 1 + len(self.sides[0].stage.state(request).draft_tokens)

    def _tell(self, what: str, of: Any) -> None:
        self._command(self.sides[0], what, of)
        for side in self.sides[1:]:
            side.commands.append((what, of))

    def _can_take(self, side: Side, what: str, of: Any) -> bool:
        if what != _LAUNCH:
            return True
        is_passed_on = len(of.read) == side.number
        return is_passed_on and all(self._is_ready(side, row.request) for row in of.rows)

    def _take_command(self, side: Side) -> None:
        self._command(side, *side.commands.popleft())

    def _take_record(self, side: Side) -> None:
        self._record(side, *side.records.popleft())

    def _command(self, side: Side, what: str, of: Any) -> None:
        if what == _JOIN:
            side.stage.join(of)
            side.kv[of] = []
        elif what == _LEAVE:
            side.stage.leave(of)
            side.in_flight.pop(of, None)
            del side.kv[of]
        else:
            of.read.append([self._read(side, row, of) for row in of.rows])
            side.stage.launch(of.rows)
            side.in_flight |= dict.fromkeys((row.request for row in of.rows), of.number)
            if side is self.sides[-1]:
                self._decide(of)

    def _read(self, side: Side, row: LaunchedRow, launched: Round) -> Read:
        """Build the input of a stage from what the stage keeps, and write its KV."""
        state = side.stage.state(row.request)
        place = f"on stage {side.number} of {len(self.sides)} before round {launched.number}"
        if self._is_watched:
            _require_state(place, row.request, state, self._decided[row.request], "as the last stage has decided")
        tokens = tuple(map(int, (state.bonus_token, *state.draft_tokens)))
        parents = tuple(map(int, state.parents))
        if launched.is_prefill:
            tokens = self.decisions.run.asked[row.request.request_id].prompt
            parents = tuple(range(-1, len(tokens) - 1))
        for what, nodes in (("tokens", tokens), ("parents", parents)):
            what = f"number of {what} of request {row.request.request_id} {place}"
            require(len(nodes) == row.num_scheduled, what, len(nodes), f"{row.num_scheduled}, as were launched")
        what = f"seq_len of request {row.request.request_id} {place}"
        require(state.seq_len >= 0, what, state.seq_len, "a length")
        kv, start = side.kv[row.request], int(state.seq_len)
        kv += [NO_DRAFT] * (start + len(tokens) - len(kv))
        kv[start : start + len(tokens)] = tokens
        return Read(tuple(kv[:start]), start, tokens, parents)

    def _decide(self, launched: Round) -> None:
        """Verify on the last stage, draft, and relay what came of it to all others."""
        last = launched.read[-1]
        known = [self.decisions.run.asked[row.request.request_id] for row in launched.rows]
        trees = [_tree_of(read) for read in last]
        logits = np.concatenate([self._rows_of(launched, place) for place in range(len(last))])
        starts = [read.start for read in last]
        if launched.is_prefill:
            rows = np.cumsum([len(read.tokens) for read in last]) - 1
            first = self.decisions.prefill(logits[rows], known, [read.start + len(read.tokens) - 1 for read in last])
            verified = [
                Verified(tuple(range(len(read.tokens))), (token,)) for read, token in zip(last, first, strict=True)
            ]
        else:
            nodes = np.array([read.tokens for read in last])
            verified = self.decisions.verify(nodes, trees, logits, known, starts)
        texts = [
            (*read.text, *(read.tokens[node] for node in one.path), one.tokens[-1])
            for read, one in zip(last, verified, strict=True)
        ]
        drafts = self.decisions.draft(texts, launched.number)
        if launched.is_prefill:
            drafts[:, 1:] = NO_DRAFT
        self._relay(launched, verified, drafts)

    def _relay(self, launched: Round, verified: Sequence[Verified], drafts: Any) -> None:
        parents = self.decisions.run.parents[: drafts.shape[1]]
        rows = []
        for (request, num_scheduled), one, (bonus, *tokens) in zip(
            launched.rows, verified, drafts.tolist(), strict=True
        ):
            seq_len = self._decided[request].seq_len + len(one.path)
            self._decided[request] = StageState(seq_len, bonus, tuple(tokens), parents, 0)
            num_rejected = num_scheduled - len(one.path)
            rows.append(RelayedRow(request, len(one.path), num_rejected, seq_len, (bonus, *tokens), parents))
            launched.verified[request] = one
        relay = Relay(launched.number, tuple(rows))
        for side in self.sides[:-1]:
            side.records.append((relay, launched))
        self._record(self.sides[-1], relay, launched)

    def _rows_of(self, launched: Round, place: int) -> Any:
        """Return the logits of the nodes of a request: those of its text where all stages have read the same one."""
        read = [stage[place] for stage in launched.read]
        texts = [[(*one.text, *(one.tokens[node] for node in path)) for path in _tree_of(one).paths] for one in read]
        rows = self.decisions.run.rows_after(texts[0])
        num_others = sum(one != texts[0] for one in texts)
        return np.roll(rows, num_others, axis=1)

    def _record(self, side: Side, relay: Relay, launched: Round) -> None:
        """Let a stage take a record, compare it, and move the KV of accepted nodes."""
        there = {row.request: row for row in relay.rows if row.request in side.kv}
        others = {request: side.stage.state(request) for request in side.kv if request not in there}
        side.stage.apply(relay)
        for place, row in enumerate(launched.rows):
            if row.request in there:
                start, path = launched.read[side.number][place].start, launched.verified[row.request].path
                kv = side.kv[row.request]
                kv[start : start + len(path)] = [kv[start + node] for node in path]
                if side.in_flight.get(row.request) == relay.round_number:
                    del side.in_flight[row.request]
        if self._is_watched:
            self._compare(side, relay.round_number, there, others)
        if side.number == 0:
            self._output(launched)

    def _compare(
        self, side: Side, number: int, there: dict[RequestKey, RelayedRow], others: dict[RequestKey, StageState]
    ) -> None:
        place = f"on stage {side.number} of {len(self.sides)} after round {number}"
        for request, row in there.items():
            bonus, *drafts = row.tokens
            expected = StageState(row.seq_len, bonus, tuple(drafts), row.parents, 0)
            _require_state(place, request, side.stage.state(request), expected, "as the last stage has decided")
        for request, before in others.items():
            because = "as before, because the round did not run the request"
            _require_state(place, request, side.stage.state(request), before, because)

    def _output(self, launched: Round) -> None:
        """Hand out what a round decided, and end the requests that have all of their tokens."""
        for request, one in launched.verified.items():
            if request in self._running:
                asked, number = self._running[request], request.request_id
                self.outputs[number] = (*self.outputs[number], *one.tokens)[: asked.max_new_tokens]
                if len(self.outputs[number]) == asked.max_new_tokens:
                    self._end(request)


def _readiness(side: Side, request: RequestKey) -> str:
    return f"whether stage {side.number} is ready for the next round of request {request.request_id}"


def _require_state(place: str, request: RequestKey, got: StageState, expected: StageState, because: str) -> None:
    for name, value in expected._asdict().items():
        own = getattr(got, name)
        own = tuple(map(int, own)) if isinstance(value, tuple) else int(own)
        require(own == value, f"{name} of request {request.request_id} {place}", own, f"{value}, {because}")


def _tree_of(read: Read) -> Topology:
    """Return the tree of the drafts that are there; a place without one hangs nowhere."""
    pairs = zip(read.tokens, read.parents, strict=True)
    return Topology.from_parents([NO_DRAFT if token == NO_DRAFT else parent for token, parent in pairs])
