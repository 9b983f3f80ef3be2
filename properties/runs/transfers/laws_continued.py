"""Laws of texts that go on where they ended, with every drafter: in rows of others, from what a cache keeps."""

from collections.abc import Iterator

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.conformance.limits import Limits
from specsim.host.stopping import FinishReason
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_present, states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.reach.counting import reached
from specsim.properties.reach.ends import End, continued, row_of_worker, wider_than_the_first
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.runs.drafted import ALL_WORKERS, FEW_TOKENS, V2_WORKERS, drafted_by
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers
from specsim.properties.runs.transfers.laws_loaded import LONGER, watched_play
from specsim.simulation.engine import Engine
from specsim.simulation.memory import Holding, key_units, match_prefix, owned_length
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request

ENDS = (End.LENGTH, End.ABORT, End.RETRACTION)
"""How the first requests end, or are interrupted before they do, by their numbers."""

ENOUGH = 8
"""Output tokens after which a request is aborted or retracted: whole pages of it can be cached."""

MORE = 5
"""Output tokens of a request that goes on."""

FIRST_LATER = 100
"""The number of the request that goes on with the text of request 0."""

NARROW_FIRST = (0, 0, MOST, 1, MOST, MOST)
"""Drafts of the iterations of a request: those of the first iteration of a run are few, and then they are many."""

OF_ONE_WIDTH = ("ngram", "dflash")
"""Drafters whose verifies are as wide whatever number of drafts there is."""

TAGS = (
    *(continued(end, name) for end in ENDS for name in ALL_WORKERS),
    *(row_of_worker(name) for name in ALL_WORKERS),
    *(wider_than_the_first(name) for name in ALL_WORKERS if not name.startswith(OF_ONE_WIDTH)),
)
"""What runs of these laws meet: each nearly all of them, and the last ones half."""


def texts_go_on_as_if_nothing_had_been_kept(backend: Backend, scenario: Scenario) -> None:
    """A text that goes on with more tokens outputs and accepts what it does in a fresh engine without a cache.

    Its row has had other owners, and the front of it is what the cache keeps of a request that had its length, was
    aborted, or was retracted and came back. All of it is asked of every drafter on both workers.
    """
    for name in _names(backend, scenario):
        played = _Played(backend, scenario, name)
        for _ in played.turns():
            pass
        for request in played.later:
            output = greedy_decode(played.scenario.model, request.prompt, request.max_new_tokens)
            require(
                request.output == output, f"output of request {request.request_id} of {name}", request.output, output
            )
        # NOTE: what a store proposes depends on what it has seen of others.
        if name.startswith("ngram") or backend.limits.has_own_drafts:
            continue
        for request, fresh in zip(played.later, played.computed_anew(), strict=True):
            what = f"counters of request {request.request_id} of {name}"
            require(request.counters == fresh.counters, what, request.counters, fresh.counters)


def the_cache_keeps_what_texts_own(backend: Backend, scenario: Scenario) -> None:
    """After an end the cache has every whole page of what the request owned, under its text, and nothing else.

    With room for everything nothing is evicted. A request owns what is final in both caches, up to its end.
    """
    for name in _names(backend, scenario):
        played = _Played(backend, scenario, name)
        for _ in played.turns():
            _check_cache(played)


def _names(backend: Backend, scenario: Scenario) -> tuple[str, ...]:
    """Return the workers that play a run: all of them, and two where kernels are interpreted."""
    first = scenario.room.shuffle_seed % len(ALL_WORKERS)
    return (*ALL_WORKERS, *ALL_WORKERS)[first : first + 2] if is_interpreted(backend) else ALL_WORKERS


def _check_cache(played: "_Played") -> None:
    """Raise AssertionError unless the cache has the pages of all that has ended, and at the end no other."""
    engine = played.play.engine
    memory = engine.scheduler.memory
    cache, size = memory.cache, memory.page_size
    if cache is None:
        return
    ahead = memory.num_ahead if memory.has_pair_keys else 0
    pages: set[tuple[object, ...]] = set()
    for request, num_owned in played.owned:
        text = request.fill[:num_owned]
        num_kept = sum(position + ahead < len(text) for position in range(len(text))) // size * size
        key = key_units(text, memory.has_pair_keys, memory.num_ahead)[:num_kept]
        pages |= {tuple(key[: start + size]) for start in range(0, num_kept, size)}
        found, what = len(cache.match(key).slots), f"request {request.request_id} of {played.name}"
        require(found == num_kept, f"cached positions of {what}, which owned {num_owned}", found, num_kept)
    released = sorted(request.request_id for request, _ in played.owned)
    ended = sorted(request.request_id for request in engine.scheduler.finished)
    require(released == ended, f"requests of {played.name} that left their text to the cache", released, ended)
    if not engine.scheduler.has_requests:
        num_slots = size * len(pages)
        require(cache.num_cached == num_slots, f"cached slots of {played.name}", cache.num_cached, num_slots)


class _Played:
    """A run of one worker: ``asked`` first, then those ``later`` whose prompts are texts that have ended, and more.

    ``owned`` has, of each request that has ended, how many positions of text it owned then.
    """

    def __init__(self, backend: Backend, scenario: Scenario, name: str) -> None:
        self.backend, self.name = backend, name
        is_overlapped = scenario.schedule.is_overlapped and name in V2_WORKERS
        self.scenario = drafted_by(name, scenario, is_overlapped=is_overlapped)
        self.play, watched = watched_play(self.scenario, backend, [*self.scenario.arrivals, self._longest()])
        watched.leave = self._note_owned
        self.asked, self.later = self.play.requests, list[Request]()
        self.owned: list[tuple[Request, int]] = []
        self._rows: dict[int, int] = {}
        self._disturbed: set[int] = set()
        self._first_width: int | None = None

    def turns(self) -> Iterator[None]:
        """Play to the end; yield after every step."""
        engine = self.play.engine
        for iteration in self.play.turns(checks_ledger=True):
            self._note_rows(engine)
            if iteration is not None:
                self._note_width()
            for end, request in zip(ENDS, self.asked, strict=True):
                self._disturb(engine, end, request)
                if request.finish is not None and request.request_id not in self._continued():
                    self._go_on(engine, end, request)
            yield

    def computed_anew(self) -> list[Request]:
        """Return the later requests after a run of their own, without a cache."""
        arrivals = [Arrival(tuple(one.prompt), one.max_new_tokens) for one in self.later]
        play, _ = watched_play(self.scenario.having(has_prefix_cache=False), self.backend, arrivals)
        fresh = [request.fresh() for request in self.later]
        for request in fresh:
            play.engine.submit(request)
        play.engine.run()
        return fresh

    def _longest(self) -> Arrival:
        """Return a request that needs as much room as all texts have together."""
        longest = max(len(one.prompt) + one.max_new_tokens for one in self.scenario.arrivals)
        return Arrival((0,), len(ENDS) * (longest + LONGER + MORE))

    def _continued(self) -> set[int]:
        return {one.request_id - FIRST_LATER for one in self.later}

    def _note_owned(self, what: str, holding: Holding) -> None:
        """Note how much text a request owns that is about to give it back (semantics I.4)."""
        if what != "release_finished":
            return
        (request,) = (one for one in (*self.asked, *self.later) if one.holding is holding)
        finish = require_present("finish", request.finish)
        cut = None if finish.reason is FinishReason.ABORT else finish.num_tokens
        final = request.num_committed if request.num_caught_up is None else request.num_caught_up
        self.owned.append((request, owned_length(final, len(request.prompt), cut)))

    def _note_rows(self, engine: Engine) -> None:
        for request in engine.scheduler.holders:
            if self._rows.setdefault(request.row, request.request_id) != request.request_id:
                reached(row_of_worker(self.name))
            self._rows[request.row] = request.request_id

    def _note_width(self) -> None:
        """Report a full batch whose drafts are more than those of the first iteration were."""
        phase = self.play.last_verify_input()
        width, num_requests = phase.num_draft_tokens, len(phase.seq_lens)
        self._first_width = self._first_width or width
        if width > self._first_width and num_requests == self.scenario.room.max_batch:
            reached(wider_than_the_first(self.name))

    def _disturb(self, engine: Engine, end: End, request: Request) -> None:
        """Abort or retract a request that has output enough, once."""
        is_ready = end is not End.LENGTH and len(request.output) >= ENOUGH and request.finish is None
        if not is_ready or request.request_id in self._disturbed or not request.row:
            return
        self._disturbed.add(request.request_id)
        if end is End.ABORT:
            engine.abort(request.request_id)
        else:
            engine.scheduler.retract(request)

    def _go_on(self, engine: Engine, end: End, request: Request) -> None:
        """Ask for more of a text that has ended."""
        text = (*request.fill, *((token + 1) % FEW_TOKENS for token in range(LONGER)))
        later = Request(FIRST_LATER + request.request_id, text, MORE)
        memory = engine.scheduler.memory
        hit = match_prefix(memory, text) if memory.cache is not None else None
        if hit is not None and len(hit.slots) > len(request.prompt):
            reached(continued(end, self.name))
        self.later.append(later)
        engine.submit(later)


@composite
def continued_runs(draw: st.DrawFn) -> Scenario:
    """Draw three requests of two rows and of one prefix cache, of a draft that is right unless its cache is wrong.

    One is decoded to its length, one is to be aborted, and one retracted. In half of the runs, none of which overlaps,
    drafts are chains, few in the first iteration and many later.
    """
    is_narrow = draw(st.sampled_from((True, False)))
    num_steps, page_size = draw(st.sampled_from((2, 3))), draw(st.sampled_from((1, 4, 2)))
    trees = (1, num_steps + 1) if is_narrow else draw(st.sampled_from(((2, num_steps + 3), (1, num_steps + 1))))
    token = st.integers(0, VOCABULARY - 1)
    prompts = [draw(st.lists(token, min_size=2, max_size=6)) for _ in ENDS]
    return scenario_of(
        SpecConfig(trees[0], num_steps, trees[1]),
        HashModel(VOCABULARY, draw(st.integers(0, 2**32 - 1)), 1.0),
        [Arrival((number, *prompt), draw(st.integers(11, 14))) for number, prompt in enumerate(prompts)],
        max_batch=2,
        shuffle_seed=draw(st.integers(0, 2**16)),
        page_size=page_size,
        # NOTE: an engine that overlaps does not know yet how many iterations a request has had.
        is_overlapped=not is_narrow and draw(st.booleans()),
        prefill_chunk=draw(st.sampled_from((None, 4, 8))),
        stream_seed=draw(st.integers(0, 2**16)),
        has_prefix_cache=True,
        num_drafts=PatternNumbers(NARROW_FIRST) if is_narrow else None,
    )


def _tags(limits: Limits) -> tuple[str, ...]:
    return TAGS


_KEPT = ("RadixCache", "key_units", "publish_prefix")
_OWNED = ("RadixCache", "key_units", "owned_length", "release_finished")

PROPERTIES = states_of_runs(
    "continued_engine",
    (texts_go_on_as_if_nothing_had_been_kept, continued_runs, _KEPT, "P38"),
    (the_cache_keeps_what_texts_own, continued_runs, _OWNED, "P38"),
    plays=OF_ENGINES,
    tags=_tags,
    weight=4,
)
