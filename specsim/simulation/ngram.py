"""What a worker tells a store of n-grams, and asks it for: the ends of texts, each as long as a path."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.host.ngram import NgramCorpus, NgramDraft, NgramParameters, NgramStore
from specsim.simulation.requests import Request


def last_tokens(request: Request, parameters: NgramParameters) -> list[int]:
    """Return the end of a text, prompt and output, that fills a path of the store."""
    depth = parameters.max_depth
    output = request.output[-depth:]
    return [*request.prompt, *output][-depth:] if len(output) < depth else list(output)


def masks_of(drafts: Sequence[NgramDraft], num_nodes: int) -> NDArray[np.bool_]:
    """Return bool [request, node, node]: which nodes each draft's nodes see, of no request as well."""
    masks = [draft.tree_mask for draft in drafts]
    return np.array(masks, dtype=np.bool_).reshape(len(masks), num_nodes, num_nodes)


def make_corpora(
    parameters: NgramParameters, make: Callable[..., NgramCorpus] = NgramCorpus
) -> tuple[NgramCorpus, ...]:
    """Return the texts from outside that drafts may come from."""
    return tuple(make(documents, parameters, parameters.max_corpus_tokens) for documents in parameters.corpora)


def has_same_store(one: NgramParameters, other: NgramParameters) -> bool:
    """Return whether one store serves both: windows, breadths, growth and room are what it was made for.

    How many nodes a draft has, and which texts from outside it may come from, is said when it is asked.
    """
    own = ("max_depth", "min_breadth", "max_breadth", "capacity", "mode")
    return all(vars(one)[name] == vars(other)[name] for name in own)


@runtime_checkable
class StoringWorker(Protocol):
    """A worker that drafts from a store, or a side that does."""

    parameters: NgramParameters
    store: NgramStore


@runtime_checkable
class SidedWorker(Protocol):
    """A loop that leaves its drafts to a side."""

    side: Any


def storing(worker: object) -> StoringWorker | None:
    """Return who drafts from a store, a worker or the side of one; None if neither does."""
    for one in (worker, worker.side) if isinstance(worker, SidedWorker) else (worker,):
        if isinstance(one, StoringWorker):
            return one
    return None


def figures_of(worker: object) -> dict[str, int]:
    """Return how much the store of a worker remembers, and how much it had to forget; nothing without a store."""
    drafter = storing(worker)
    if drafter is None:
        return {}
    store, capacity = drafter.store, drafter.parameters.capacity
    return {"num_nodes": store.num_nodes, "capacity": capacity, "num_forgotten": store.num_forgotten}


class Texts:
    """The texts of the requests of a worker that keeps no books, by row."""

    def __init__(self, parameters: NgramParameters) -> None:
        self._depth = parameters.max_depth
        self._texts: dict[int, list[int]] = {}

    def begin(self, row: int, prompt: Sequence[int], following: int) -> None:
        """Begin with a prompt and the token behind it; whoever had the row before is forgotten."""
        self._texts[row] = [*prompt, following]

    def go_on(self, row: int, tokens: Sequence[int]) -> None:
        """Go on with what a verify output."""
        self._texts[row].extend(tokens)

    def num_committed(self, row: int) -> int:
        """Return how many positions have KV: those of all tokens but the last."""
        return len(self._texts[row]) - 1

    def last_tokens(self, row: int) -> list[int]:
        """Return the end of a text that fills a path of the store."""
        return self._texts[row][-self._depth :]


def output_tokens(predict: NDArray[np.int32], paths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return int32 [request, node]: the tokens along each accepted path, zeros behind it."""
    return np.where(paths >= 0, predict[paths], 0).astype(np.int32)
