"""Faults that show when numbers of steps change: for all requests of an iteration, for some, or to none for a while."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from specsim.algorithms import WORKERS
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, load
from specsim.conformance.direct import Direct
from specsim.phases import DraftInput
from specsim.properties.mutants.edits import edit, edited
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    answering,
    edits_of_loops,
    edits_of_scheduler,
    in_loops,
    mutants_of,
    overriding,
    unchanged,
)
from specsim.reference.worker.cut import cut_drafts
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.pools import Pools
from specsim.simulation.models.description import Side
from specsim.simulation.numbers import Steps
from specsim.simulation.worker import Iteration, Proposals, Worker

Run = Callable[[Steps], Iteration]
"""Runs an iteration with some numbers of steps."""

Iterate = Callable[[Any, Sequence[int], Steps, Run], Iteration]
Spoil = Callable[[Any, Sequence[int], list[int], Run], Iteration]
"""Takes a worker, rows, their numbers and what runs an iteration of them, and returns the iteration."""

PROPOSALS = ("topk_p", "topk_index", "hidden_states")
"""What a draft starts from, beside its root and its place."""

_ALIKE, _PROPOSED = "num_steps is None or isinstance(num_steps, int)", "side.facts.proposals(verify_input, widths)"

OTHERS = tuple(name for name in WORKERS if not name.startswith("eagle"))
"""The workers of other drafters than EAGLE and EAGLE3."""


def around(iterate: Iterate) -> Callable[[type[Loop]], Any]:
    """Inject something else where a loop runs an iteration, on the map as it is or was.

    ``iterate`` gets the worker, rows, numbers, and what runs the iteration with some numbers.
    """

    def decode(correct: Function, worker: Any, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        return iterate(worker, rows, num_steps, partial(correct, worker, rows))

    def decode_from(
        correct: Function, worker: Any, read: Any, rows: Sequence[int], num_steps: Steps = None
    ) -> Iteration:
        return iterate(worker, rows, num_steps, partial(correct, worker, read, rows))

    # NOTE: in V2 one calls the other.
    in_v1, in_v2 = overriding(decode=decode), overriding(decode_from=decode_from)
    return lambda loop: in_v1(loop) if loop.is_v1 else in_v2(loop)


def _in_iterations(*pairs: str, **names: Any) -> Callable[[Any], Any]:
    """Inject other pieces where a loop runs an iteration, on the map as it is or was."""
    return lambda loop: edited(*pairs, within=f"{loop.__name__}.decode{'' if loop.is_v1 else '_from'}", **names)(loop)


def _cutting(*pairs: str) -> Callable[[Function], Function]:
    """Inject another cut where requests have numbers."""
    return lambda loop: edit(loop, "cut_drafts", "faulty", within=Loop._cut, faulty=edit(cut_drafts, *pairs))


def _renumbering(numbers: str) -> Callable[[Function], Function]:
    """Inject other numbers in the place of those of requests."""
    return _in_iterations("num_steps", f"num_steps if {_ALIKE} else {numbers}")


def _spoiling(spoil: Spoil) -> Callable[[type[Loop]], Any]:
    """Inject something else around an iteration whose requests have numbers."""

    def iterate(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
        if num_steps is None or isinstance(num_steps, int):
            return run(num_steps)
        return spoil(worker, rows, list(num_steps), run)

    return around(iterate)


@contextmanager
def draft_kept(pools: Pools, slots_of: Callable[[], Any] = lambda: slice(None)) -> Iterator[None]:
    """Leave slots of the draft as they are, whatever the block does; which ones, is asked after it."""
    pool = pools.kv[Side.DRAFT]
    before = [layer.copy() for layer in pool.layers()]
    yield
    kept = slots_of()
    with pool.writing():
        for layer, entries in zip(pool.layers(), before, strict=True):
            layer[kept] = entries[kept]


def _without_ingest(worker: Any, rows: Sequence[int], numbers: list[int], run: Run) -> Iteration:
    """Leave the draft's entries of the positions as they were that requests without drafts commit."""
    pools, committed = worker._pools, worker.state()["seq_lens"]
    resting = [row for row, number in zip(rows, numbers, strict=True) if number == 0]
    places = resting, [int(committed[row]) for row in resting]
    with draft_kept(pools, lambda: pools.req_to_token[places]):
        return run(numbers)


def with_old_proposals(after: DraftInput, before: DraftInput, is_resting: list[bool]) -> DraftInput:
    """Return what starts the next drafts, where requests that rest go on with what they were to start from."""
    rows = before.req_pool_indices.tolist()
    places = [rows.index(row) for row in after.req_pool_indices.tolist()]
    is_old = np.array(is_resting, dtype=np.bool_)[places]
    stale = {name: getattr(after, name).copy() for name in PROPOSALS}
    for name, values in stale.items():
        values[is_old] = getattr(before, name)[places][is_old]
    return replace(after, **stale)


def _read_by_the_widest(worker: Any, rows: Sequence[int], numbers: list[int], run: Run) -> Iteration:
    """Read the tokens of a narrow iteration as if each request had as many as the configuration says."""
    iteration, width = run(numbers), worker.config.num_draft_tokens
    tokens = np.zeros(len(rows) * width, dtype=np.int32)
    tokens[: iteration.tokens.size] = iteration.tokens.reshape(-1)
    return replace(iteration, tokens=tokens.reshape(len(rows), width))


class _WideRows(Direct):
    """Operations of a loop whose mask of grammars has rows for the nodes of the configuration.

    A narrower batch reads them as if they were its own.
    """

    num_nodes = 1

    def traverse_tree(self, *given: Any) -> None:
        """Fill the rows of a request where they would lie in the wide mask."""
        *tree, rows, vocab_size = given
        own = rows.copy()
        self.host("traverse_tree")(*tree, own, vocab_size)
        mask: Any = rows.base
        request = (rows.ctypes.data - mask.ctypes.data) // mask.strides[0] // len(rows)
        start = request * self.num_nodes
        there = mask[start : start + len(rows)]
        there[:] = own[: len(there)]


def _with_wide_rows(loop: Any) -> Callable[..., Worker]:
    def build(config: Any, *given: Any, **named: Any) -> Worker:
        operations = _WideRows(load("specsim.reference"))
        operations.num_nodes = config.num_draft_tokens
        worker: Worker = loop(config, *given, operations=operations, **named)
        return worker

    return build


def _sleeping(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Iteration:
    """Write nothing into the draft's cache while nothing is proposed."""
    with draft_kept(worker._pools) if num_steps == 0 else nullcontext():
        return run(num_steps)


def _stride_of_the_first_call(correct: Function) -> Function:
    """Inject a fault that keeps the query offsets of the first forward over nodes, as a captured graph would."""
    kept: dict[str, int] = {}

    def answer(correct: Function, arguments: Named) -> Any:
        outputs = correct(**arguments)
        num_requests = len(arguments["seq_lens"])
        if num_requests == 0:
            return outputs
        width = kept.setdefault("width", arguments["num_tokens"] // num_requests)
        offsets = np.arange(num_requests + 1, dtype=outputs.cu_seqlens_q.dtype) * width
        return outputs._replace(cu_seqlens_q=offsets)

    return answering(answer)(correct)


def _starting(start: str) -> Callable[[Function], Function]:
    """Inject something else that starts the next drafts."""
    kept = f"self._waiting.keep({start})"
    return _in_iterations("self._waiting.keep(followed.start)", kept, with_old_proposals=with_old_proposals)


_EAGLE, _ALL = (EAGLE_V1, EAGLE_V2), (EAGLE_V1, EAGLE_V2, *OTHERS)

_FAULTS = (
    ("OWN-1510", "Nodes beyond the number of a request keep the drafts of others.", _EAGLE,
     _cutting("np.where(is_draft, phase.draft_token.reshape(shape), NO_DRAFT)", "phase.draft_token")),
    ("OWN-1511", "A request accepts drafts beyond its own number.", _ALL,
     edited("cut_drafts(drafted, widths.own_steps)", "drafted", within=Loop._cut)),
    ("OWN-1512", "A request accepts one draft more than its number.", _ALL,
     _cutting("depths < deepest", "depths <= deepest")),
    ("OWN-1513", "A tree keeps as many nodes as there are steps, not levels.", _EAGLE,
     _cutting("depths < deepest", "phase.retrieve_next_token <= deepest",
              "np.where(is_draft, phase.retrieve_next_sibling, NONE)",
              "np.where(phase.retrieve_next_sibling <= deepest, phase.retrieve_next_sibling, NONE)")),
    ("OWN-1514", "A request that drafts nothing is taken for one without a number.", _ALL,
     _renumbering("[number or self.config.num_steps for number in num_steps]")),
    ("OWN-1515", "Numbers are those of the neighbours.", _ALL, _renumbering("[*num_steps[-1:], *num_steps[:-1]]")),
    ("OWN-1516", "No request drafts more than the first of its batch.", _EAGLE,
     _renumbering("[min(number, num_steps[0]) for number in num_steps]")),
    ("OWN-1517", "Every request drafts one step at least.", _ALL,
     _renumbering("[max(number, 1) for number in num_steps]")),
    ("OWN-1518", "The draft's cache has a hole where a request drafted nothing.", _EAGLE, _spoiling(_without_ingest)),
    ("OWN-1519", "After a rest a request drafts from what it proposed before.", _EAGLE,
     _starting(f"followed.start if {_ALIKE} else "
               "with_old_proposals(followed.start, start, [number == 0 for number in num_steps])")),
    ("OWN-1520", "Tokens of narrow results are read by the widest width.", _EAGLE, _spoiling(_read_by_the_widest)),
    ("OWN-1521", "Figures count the most drafts for every request.", _EAGLE,
     _in_iterations(_PROPOSED, f"{_PROPOSED} if {_ALIKE} else Proposals(*[(most,) * len(rows) for most in "
                               "(self.config.num_draft_tokens - 1, self.config.num_steps)])", Proposals=Proposals)),
    ("OWN-1522", "A grammar's rows are those of the widest batch.", _EAGLE, _with_wide_rows),
    ("OWN-1500", "After a rest the draft goes on with what it proposed before.", _EAGLE,
     _starting("with_old_proposals(followed.start, start, [num_steps == 0] * len(rows))")),
    ("OWN-1501", "The draft's cache is not filled while nothing is proposed.", _EAGLE, around(_sleeping)),
    ("OWN-1502", "A change of steps takes effect one iteration late.", (EAGLE_V2,),
     _in_iterations("self._pools.start_iteration()",
                    "self._pools.start_iteration()\n"
                    "num_steps, self.steps_before = vars(self).get('steps_before'), num_steps")),
    ("OWN-1503", "Zero steps are taken for those of the configuration.", _EAGLE,
     _in_iterations("num_steps", "num_steps or None")),
)  # fmt: skip

MUTANTS = (
    *edits_of_loops(
        [EAGLE_V2],
        """
        @@ verify_tree_greedy in ReferenceWorker.decode_from
        OWN-1523 Figures count the steps of a whole tree as its levels.
          proposals = side.facts.proposals(verify_input, widths)
        + if proposals is not None and widths.own_steps is None:
        +     levels = min(config.num_steps, config.num_draft_tokens - 1)
        +     proposals = replace(proposals, num_levels=(levels,) * len(row))
        """,
        replace=replace,
    ),
    *(
        Mutant(number, "verify_tree_greedy", fault, unchanged, **in_loops(inject, *names))
        for number, fault, names, inject in _FAULTS
    ),
    *edits_of_scheduler(
        """
        @@ assign_req_to_token_pool in Scheduler.prepare_for_decode
        OWN-1504 After an iteration without drafts no room is kept for those with drafts.
          holdings = [request.holding for request in self.running]
        + lengths = {request.request_id: request.num_committed for request in self.running}
        + before, self.lengths = vars(self).get("lengths", {}), lengths
        + is_at_rest = all(length == before.get(number, -1) + 1 for number, length in lengths.items())
        + sizes = replace(self._sizes, num_steps=0, num_draft_tokens=1) if is_at_rest else self._sizes
        - self._part("prepare_for_decode")(self.memory, holdings, self._sizes)
        + self._part("prepare_for_decode")(self.memory, holdings, sizes)
        """
    ),
    *mutants_of(
        "target_verify_metadata",
        ("OWN-452", "Query offsets keep the width of the first call.", _stride_of_the_first_call),
    ),
)
