"""Which cells are not run, who says so, and why: the one place that leaves anything out."""

from dataclasses import dataclass
from random import Random

from specsim.properties.laws.support.histories import model_for
from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.setups import SIZES, draw_setup
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.subject import Subject
from specsim.rejection import SpecRejection
from specsim.rules import REASONS_FOR_V1, ServerConfig, resolve
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS
from specsim.simulation.worker import SynchronousWorker


@dataclass(frozen=True)
class Refusal:
    """Who refuses a cell, and in which words.

    ``by`` is ``rules``, ``implementation``, ``worker`` or ``engine``.
    """

    by: str
    because: str


def why_refused(subject: Subject, cell: Cell) -> Refusal | None:
    """Return why a cell is not run, or None if it is.

    The rules are asked first, but for the choice between V1 and V2, which is forced; then whether the implementation
    has such a worker; then worker and engine, which are built for it.
    """
    found = _refused_by_rules(cell)
    if found is not None:
        return found
    backend, setup = subject.backend, draw_setup(cell, Random(0))
    lacking = Refusal("implementation", f"{backend.name} brings no {cell.worker.upper()} worker")
    if backend.has_worker and not subject.has_own_worker(setup.is_v1):
        return lacking
    try:
        worker = _build_worker(subject, setup)
    except SpecRejection as rejection:
        return Refusal("worker", str(rejection))
    if isinstance(worker, SynchronousWorker) != setup.is_v1:
        return lacking
    try:
        Machine(subject, setup)
    except SpecRejection as rejection:
        return Refusal("engine", str(rejection))
    return None


def _build_worker(subject: Subject, setup: Setup) -> object:
    """Return the worker that is tried, one of the implementation's own in particular, whatever it refuses."""
    build = subject.backend.own_worker(setup.is_v1)
    if build is None:
        return subject.worker(setup)
    return build(setup.config, model_for(subject.backend, setup.model), setup.sizes())


def _refused_by_rules(cell: Cell) -> Refusal | None:
    """Return what the rules of a server have against a cell."""
    sizes = SIZES[cell.topk][0]
    try:
        plan = resolve(
            ServerConfig(
                algorithm="EAGLE",
                topk=sizes.topk,
                num_steps=sizes.num_steps,
                num_draft_tokens=sizes.num_draft_tokens,
                page_size=cell.page_size,
                mode=cell.worker,
                disable_overlap=not cell.overlap,
                recurrent=cell.pool in RECURRENT_KINDS,
                radix_cache=cell.prefix_cache,
            )
        )
    except SpecRejection as rejection:
        return Refusal("rules", str(rejection))
    if cell.overlap and not plan.is_overlapped:
        reasons = [one for one in plan.decisions if one.code in REASONS_FOR_V1]
        return Refusal("rules", "; ".join(f"{one.code.value}: {one.text}" for one in reasons))
    return None
