"""What an engine refuses when it is made, and what it takes from its worker."""

from specsim.config import SpecConfig
from specsim.host.adaptive import AdaptiveController
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.worker import PlainlyKeyedWorker, Worker


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
        raise SpecRejection(Reason.BAD_CONFIGURATION, what=what, got=got, expected=str(expected), because=because)


def require_room(config: SpecConfig, adaptive: AdaptiveController) -> None:
    """Raise unless a worker can draft every candidate of a controller."""
    deepest = max(adaptive.config.candidates)
    if config.topk != 1 or config.num_steps != deepest:
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="(topk, num_steps)",
            got=(config.topk, config.num_steps),
            expected=str((1, deepest)),
            because="the number of steps of a chain adapts, and the worker allocates for the most",
        )
