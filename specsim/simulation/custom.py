"""The worker of a plug-in: made by its factory, and refused by name where it is not what the plug-in promises."""

from typing import Any

from specsim.algorithms import CustomSpecAlgo, WorkerRequest
from specsim.algorithms.promises import verify_width_of
from specsim.config import PoolSizes, SpecConfig
from specsim.rejection import SpecRejection, contradiction
from specsim.simulation.models.protocol import Model
from specsim.simulation.worker import SynchronousWorker, Worker

METHODS = ("assign_slots", "assign_choices", "prefill", "decode", "phases", "state")
ATTRIBUTES = ("name", "device", "config", "model", "sizes")
"""What the engine asks of a worker: see ``specsim.simulation.worker.Worker``."""


def make_custom_worker(
    plugin: CustomSpecAlgo,
    request: WorkerRequest,
    config: SpecConfig,
    model: Model[Any],
    sizes: PoolSizes,
    **options: Any,
) -> Worker:
    """Return the worker that a plug-in's factory makes for a configuration.

    The factory returns a class, which is built of the configuration, the model and the pool sizes, as every worker is.
    Its own configuration may have another number of nodes: as many as
    ``get_num_tokens_per_bs_for_target_verify`` says.

    Parameters
    ----------
    request : WorkerRequest
        What the rules chose, as ``ExecutionPlan.worker_request`` has it.
    **options
        Whatever the class takes besides.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: overlap that the plug-in does not support, or a worker that lacks something, is of the other
        kind, or brings another number of tokens than it should.

    Notes
    -----
    Source: semantics G.2, G.4.
    """
    make = plugin.create_worker(request)
    if not callable(make):
        raise _refuse(plugin, "factory", repr(make), "a class of workers", "the engine builds the worker")
    _require_parts(plugin, make, METHODS, "its class")
    worker = make(config, model, sizes, **options)
    _require_parts(plugin, worker, ATTRIBUTES, "its worker")
    is_v1 = isinstance(worker, SynchronousWorker)
    if is_v1 != (request.version == "v1"):
        got, because = "v1" if is_v1 else "v2", "V1 keeps books, and V2 does not"
        raise _refuse(plugin, "version of the worker", got, request.version, because)
    width = verify_width_of(plugin, config.num_draft_tokens, is_draft_worker=False)
    got_width = worker.config.num_draft_tokens
    if got_width != width:
        because = f"the plug-in says so of {config.num_draft_tokens} draft tokens"
        raise _refuse(plugin, "tokens that a request brings to a verify", got_width, str(width), because)
    made: Worker = worker
    return made


def _require_parts(plugin: CustomSpecAlgo, owner: Any, names: tuple[str, ...], kind: str) -> None:
    missing = [name for name in names if name not in dir(owner)]
    if missing:
        because = f"the engine asks for {', '.join(names)}"
        raise _refuse(plugin, f"what {kind} lacks", ", ".join(missing), "nothing", because)


def _refuse(plugin: CustomSpecAlgo, what: str, got: object, expected: str, because: str) -> SpecRejection:
    return contradiction(f"{plugin.name}: {what}", got, expected, because)
