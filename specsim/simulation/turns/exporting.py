"""What may leave of a request while an engine runs: what was launched and not resolved does not count."""

from collections.abc import Iterable
from dataclasses import replace

from specsim.host.exporting import loadable_positions
from specsim.rejection import Reason, SpecRejection, contradiction
from specsim.simulation.handing_over import CountLoadable, HandOver, Load
from specsim.simulation.memory import Export, ExportLengths, Memory, num_key_units
from specsim.simulation.requests import Request
from specsim.simulation.turns.launches import Launched
from specsim.simulation.worker import LoadingWorker


def require_loading(worker: object) -> LoadingWorker:
    """Return a worker that hands texts over and goes on with them; raise SpecRejection for another one."""
    if not isinstance(worker, LoadingWorker):
        raise contradiction("worker", type(worker).__name__, "one with pool_form, export and load", "a text moves")
    return worker


def hand_over(worker: object, memory: Memory, request: Request, export: Export, written: ExportLengths) -> HandOver:
    """Return what another engine needs to go on with a request, from what may leave and what was written of it.

    The draft's last entries read tokens after those that leave, which are part of the text.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the worker loads nothing; what its ``export`` refuses.

    Notes
    -----
    Source: semantics Q.7.
    """
    loading, text, target = require_loading(worker), request.fill, export.lengths.target
    contents = loading.export(request.row, export.slots)
    # NOTE: a draft of several layers reads more tokens after a position than the one that follows what it caught up on.
    known = num_key_units(min(len(text), written.draft + 1), memory.has_pair_keys, memory.num_ahead)
    draft, start = max(export.lengths.draft, min(written.draft, target, known)), 0
    kept = {**contents, "draft_kv": [layer[:draft] for layer in contents["draft_kv"]]}
    if memory.swa is not None:
        swa_slots = memory.swa.swa_slots(export.slots)
        start = max((place + 1 for place, slot in enumerate(swa_slots) if not slot), default=0)
        kept["swa_kv"] = [layer[start:] for layer in contents["swa_kv"]]
    return HandOver(text, replace(export.lengths, draft=draft), kept, loading.pool_form, start)


def load_of(
    worker: object,
    memory: Memory,
    request: Request,
    handed_over: HandOver,
    *,
    loadable_positions: CountLoadable = loadable_positions,
) -> Load:
    """Return what a worker loads for a request that goes on with what was handed over.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the worker loads nothing; WRONG_PHASE: the request has ended or runs here; what
        ``HandOver.load`` refuses.
    """
    if request.finish is not None or request.row:
        because = "a text is loaded before its request runs"
        raise SpecRejection(Reason.WRONG_PHASE, "request", "one that runs or has ended", "one that waits", because)
    form, publishes = require_loading(worker).pool_form, memory.cache is not None
    return handed_over.load(request.fill, form, publishes, loadable_positions=loadable_positions)


def written_lengths(request: Request, in_flight: Iterable[Launched]) -> ExportLengths:
    """Return how many positions of a request are written and resolved in each cache.

    States lie in the request's row, where a forward on its way leaves those after tokens that are not known yet.

    Notes
    -----
    Source: semantics Q.7.
    """
    launched = [
        (one, place)
        for one in in_flight
        for place, (taking_part, num_retractions) in enumerate(zip(one.requests, one.num_retractions, strict=True))
        if taking_part is request and num_retractions == request.num_retractions
    ]
    starts = [one.chunks[place].start for one, place in launched if one.chunks is not None]
    starts += [load.start for one, _ in launched for load in one.loads if load.row == request.row]
    resolved = min([request.num_committed, *starts])
    draft = resolved if request.num_caught_up is None else min(resolved, request.num_caught_up)
    return ExportLengths(resolved, draft, 0 if launched else resolved)
