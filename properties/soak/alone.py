"""What a request drafts and accepts with no one beside: what it has to draft and accept in any company."""

from collections.abc import Mapping, Sequence

from specsim.assertion import require, require_kind
from specsim.host.stopping import FinishReason
from specsim.phases import DflashDraftInput, DraftInput, Phase, VerifyInput
from specsim.properties.runs.play import Play, loop_on
from specsim.properties.soak.setups import Setup
from specsim.simulation.engine import Engine
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.requests import Request

Tree = tuple[list[int], list[int], list[int]]
"""Tokens of the nodes, and their links to first child and next sibling."""


def run_alone(setup: Setup, request: Request) -> tuple[Request, Mapping[int, Tree]]:
    """Decode a request in the reference with no one beside, slot by slot.

    Returns
    -------
    request, trees : Request, mapping
        The request at its end, and the tree that it verified at each committed length.
    """
    engine, (fresh,) = _undisturbed(setup, [request])
    trees: dict[int, Tree] = {}
    while engine.has_work:
        if engine.step() is not None:
            trees |= dict(trees_of(engine.worker.phases()).values())
    return fresh, trees


def run_together(setup: Setup, requests: Sequence[Request]) -> list[Request]:
    """Decode requests in the reference, slot by slot, undisturbed and with room for all; return them at their ends."""
    engine, fresh = _undisturbed(setup, requests)
    engine.run()
    return fresh


def _undisturbed(setup: Setup, requests: Sequence[Request]) -> tuple[Engine, list[Request]]:
    """Return an engine of the reference that has been asked for requests once more, and these."""
    plain = setup.undisturbed(len(requests))
    engine = Play(plain, worker=loop_on(plain, reads=Reads.KEPT)).engine
    fresh = [request.fresh() for request in requests]
    for request in fresh:
        engine.submit(request)
    return engine, fresh


def started_from(phases: Sequence[Phase]) -> DraftInput | DflashDraftInput:
    """Return what an iteration started its drafts from."""
    require(phases, "phases of an iteration", len(phases), "at least the draft input")
    first = phases[0]
    return first if isinstance(first, DflashDraftInput) else require_kind("phase 0", first, DraftInput)


def trees_of(phases: Sequence[Phase]) -> dict[int, tuple[int, Tree]]:
    """Return the committed length of each row of an iteration, and the tree that was verified after it."""
    row = started_from(phases).req_pool_indices
    verified = require_kind("phase 1", phases[1], VerifyInput)
    tokens = verified.draft_token.reshape(len(row), -1)
    links = (verified.retrieve_next_token, verified.retrieve_next_sibling)
    return {
        number: (length, (tokens[place].tolist(), links[0][place].tolist(), links[1][place].tolist()))
        for place, (number, length) in enumerate(zip(row.tolist(), verified.seq_lens.tolist(), strict=True))
    }


class Drafts:
    """The trees of the requests of a machine, until these have ended."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._seen: dict[int, dict[int, Tree]] = {}

    def note(self, owners: Mapping[int, int], phases: Sequence[Phase]) -> None:
        """Keep the trees of an iteration; ``owners`` has the number of the request that each row belongs to."""
        for row, (length, tree) in trees_of(phases).items():
            if row in owners:
                self._seen.setdefault(owners[row], {})[length] = tree

    def check(self, request: Request) -> None:
        """Raise AssertionError unless a request that has ended drafted and accepted what it does alone.

        Drafts that start from anything but the end of the text change no output, only how much of it comes at once.
        One that was retracted or aborted, or that verified within a budget, has other lengths; where they are the same,
        so are the trees.
        """
        seen = self._seen.pop(request.request_id, {})
        if self._setup.candidates or self._setup.others or not request.is_greedy:
            return
        alone, trees = run_alone(self._setup, request)
        for length, tree in seen.items():
            if length in trees:
                what = f"tree of request {request.request_id} after {length}"
                require(tree == trees[length], what, tree, trees[length])
        has_company = request.num_retractions or self._setup.schedule.verification is not None
        if not has_company and request.finish_reason is not FinishReason.ABORT:
            got, expected = request.counters, alone.counters
            require(got == expected, f"counters of request {request.request_id}", got, expected)
