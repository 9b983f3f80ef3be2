"""What an engine refuses when it is made, and what it takes from its worker."""

from specsim.config import SpecConfig
from specsim.host.adaptive import AdaptiveController
from specsim.rejection import contradiction
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import VerifyMode
from specsim.simulation.worker import PlainlyKeyedWorker, SynchronousWorker, Worker, is_mixing, is_scheduling


def has_pair_keys(worker: Worker) -> bool:
    """Return whether pairs of tokens are the keys of the prefix cache, as the shifted draft cache of a worker asks.

    Notes
    -----
    Source: semantics A.14b, I.7.
    """
    return not (isinstance(worker, PlainlyKeyedWorker) and worker.has_plain_keys)


def require_same(what: str, got: object, expected: object, because: str) -> None:
    """Refuse engines that share memory and differ in it."""
    if got != expected:
        raise contradiction(what, got, str(expected), because)


def require_room(config: SpecConfig, adaptive: AdaptiveController) -> None:
    """Raise unless a worker can draft every candidate of a controller."""
    deepest = max(adaptive.config.candidates)
    if config.topk != 1 or config.num_steps != deepest:
        because = "the number of steps of a chain adapts, and the worker allocates for the most"
        raise contradiction("(topk, num_steps)", (config.topk, config.num_steps), str((1, deepest)), because)


def require_schedule(worker: Worker, schedule: Schedule) -> None:
    """Raise unless a worker can be scheduled so.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a V1 worker that is to overlap; cached prefixes of a recurrent model; clipped trees; numbers
        of drafts of single requests on a worker that has one number for all; verify lengths of trees, or on a worker
        or a model that has none.
    """
    if schedule.num_drafts is not None and not is_mixing(worker):
        because = f"{worker.name} does not say mixes_drafts: all requests of an iteration draft as many steps"
        raise contradiction("num_drafts", schedule.num_drafts, "None", because)
    if schedule.verification is not None:
        _require_verify_lens(worker, schedule.verification.mode.value)
    refused = (
        ("is_overlapped", isinstance(worker, SynchronousWorker), "V1 allocates and frees inside an iteration"),
        (
            "has_prefix_cache",
            bool(worker.model.description.state_components),
            "recurrent states are not kept by position",
        ),
        ("clips_drafts", worker.config.topk != 1, "the width of a tree does not follow from its depth"),
    )
    for what, is_refused, because in refused:
        if is_refused and vars(schedule)[what]:
            raise contradiction(what, True, "False", because)


def _require_verify_lens(worker: Worker, mode: str) -> None:
    """Raise unless a worker drafts chains with confidences, and verifies as much of them as is admitted."""
    description = worker.model.description
    for is_lacking, because in (
        (worker.config.topk != 1, "a verify length cuts a chain, and topk is above 1"),
        (description.confidence_head is None, f"{description.name} has no head that says how sure a draft is"),
        (not is_scheduling(worker), f"{worker.name} does not say schedules_verify"),
    ):
        if is_lacking:
            raise contradiction("mode of verification", mode, VerifyMode.STATIC.value, because)
