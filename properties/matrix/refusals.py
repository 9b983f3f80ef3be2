"""Which cells are not run, who says so, and why: the one place that leaves anything out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

from specsim.algorithms import DRAFTERS
from specsim.conformance.isolation.heartbeat import begin_call
from specsim.conformance.raised import Undefined
from specsim.operations.derived.signature import nearest
from specsim.properties.matrix.factors import FACTORS, NAMES, Cell, Value
from specsim.properties.matrix.setups import draw_setup, sizes_of
from specsim.properties.seeds import source_of
from specsim.properties.soak.drafters import settings_of
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.sides import engine_around
from specsim.properties.soak.subject import Subject
from specsim.rejection import SpecRejection
from specsim.rules import REASONS_FOR_V1, ServerConfig, resolve
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS
from specsim.simulation.worker import SynchronousWorker, Worker

SCHEDULING = ("overlap", "chunking", "prefix_cache", "verify_mode")
"""Factors that a worker does not depend on: cells that differ in these alone are asked about with one worker."""

Values = tuple[Value, ...]
# NOTE: no rule asks how much is verified, and no engine how drafts are accepted; asking takes most of the time.
_OF_RULES, _OF_WORKER, _OF_ENGINE = (
    attrgetter(*(name for name in NAMES if name not in left_out))
    for left_out in (("verify_mode", "acceptance"), SCHEDULING, ("acceptance",))
)


@dataclass(frozen=True)
class Refusal:
    """Who refuses a cell, and in which words.

    ``by`` is ``rules``, ``implementation``, ``worker`` or ``engine``.
    """

    by: str
    because: str


def refusals(subject: Subject, cells: Iterable[Cell]) -> dict[Cell, Refusal]:
    """Return why cells are not run, as far as they are not.

    The rules are asked first, but for the choice between V1 and V2, which is forced; then whether the implementation
    has such a worker; then worker and engine, which are built for it.
    """
    found: dict[Cell, Refusal] = {}
    workers: dict[Values, Worker | Refusal] = {}
    ruled: dict[Values, Refusal | None] = {}
    scheduled: dict[Values, Refusal | None] = {}
    for cell in cells:
        of_rules = _OF_RULES(cell)
        if of_rules not in ruled:
            ruled[of_rules] = _refused_by_name(subject, cell) or _refused_by_rules(subject, cell)
        refusal = ruled[of_rules]
        if refusal is None:
            of_worker, of_engine = _OF_WORKER(cell), _OF_ENGINE(cell)
            if of_worker not in workers:
                plain = replace(cell, **{name: FACTORS[name][0] for name in SCHEDULING})
                begin_call(plain.name)
                workers[of_worker] = _build_worker(
                    subject, draw_setup(plain, source_of(0), brought=subject.brought(plain.algorithm))
                )
            worker = workers[of_worker]
            if isinstance(worker, Refusal):
                refusal = worker
            else:
                if of_engine not in scheduled:
                    scheduled[of_engine] = _refused_by_engine(subject, cell, worker)
                refusal = scheduled[of_engine]
        if refusal is not None:
            found[cell] = refusal
    return found


def _build_worker(subject: Subject, setup: Setup) -> Worker | Refusal:
    """Return the worker that is tried, one of the implementation's own in particular, or why there is none."""
    name, is_own = subject.backend.name, subject.has_own_worker(setup)
    lacking = Refusal("implementation", f"{name} brings no {_called(setup)}")
    if subject.backend.workers and not is_own and not subject.backend.functions:
        return lacking
    if is_own and not subject.takes_rule(setup):
        return Refusal("implementation", f"the {_called(setup)} of {name} has no parameter acceptance")
    try:
        worker = subject.own_worker(setup) if is_own else subject.worker(setup)
    except Undefined:
        return lacking
    except SpecRejection as rejection:
        return Refusal("worker", str(rejection))
    return worker if isinstance(worker, SynchronousWorker) == setup.is_v1 else lacking


def _called(setup: Setup) -> str:
    kind = "V1 worker" if setup.is_v1 else "V2 worker"
    return kind if setup.worker_name.startswith("eagle_") else f"{kind} of the name {setup.worker_name}"


def _refused_by_engine(subject: Subject, cell: Cell, worker: Worker) -> Refusal | None:
    setup = draw_setup(cell, source_of(0), brought=subject.brought(cell.algorithm))
    try:
        engine_around(worker, setup, subject)
    except SpecRejection as rejection:
        return Refusal("engine", str(rejection))
    return None


def _refused_by_name(subject: Subject, cell: Cell) -> Refusal | None:
    """Return that there is no such drafter, neither of ours nor of the implementation."""
    known = subject.backend.drafters
    if cell.algorithm in DRAFTERS or cell.algorithm in known:
        return None
    brings = f"DRAFTERS has {', '.join(nearest(cell.algorithm, known) or known)}" if known else "it has no DRAFTERS"
    return Refusal("implementation", f"{subject.backend.name} brings no drafter {cell.algorithm}: {brings}")


def _refused_by_rules(subject: Subject, cell: Cell) -> Refusal | None:
    """Return what the rules of a server have against a cell."""
    drafter = subject.brought(cell.algorithm) or DRAFTERS[cell.algorithm]
    sizes = sizes_of(cell, drafter)[0]
    server = ServerConfig(
        algorithm=drafter.algorithm.value,
        topk=sizes.topk,
        num_steps=sizes.num_steps,
        num_draft_tokens=sizes.num_draft_tokens,
        page_size=cell.page_size,
        mode=cell.worker,
        disable_overlap=not cell.overlap,
        recurrent=cell.pool in RECURRENT_KINDS,
        radix_cache=cell.prefix_cache,
        multi_layer=drafter.is_multi_layer,
        ngram_max_bfs_breadth=sizes.topk,
    )
    try:
        plan = resolve(replace(server, **settings_of(drafter)))
    except SpecRejection as rejection:
        return Refusal("rules", str(rejection))
    if cell.overlap and not plan.is_overlapped:
        reasons = [one for one in plan.decisions if "disable_overlap" in one.changed or one.code in REASONS_FOR_V1]
    elif plan.config.topk != cell.topk:
        reasons = [one for one in plan.decisions if "topk" in one.changed]
    else:
        return None
    return Refusal("rules", "; ".join(f"{one.code.value}: {one.text}" for one in reasons))
