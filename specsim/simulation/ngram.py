"""Drafts from a store of n-grams: what their sides have in both layers, and what is asked about stores."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.host.ngram import NgramCorpus, NgramDraft, NgramParameters, NgramStore, draft_with_corpora
from specsim.simulation.models.description import DraftSource, Side
from specsim.simulation.models.protocol import require_model
from specsim.simulation.sides import Setting, SideFacts


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


RUNS_BESIDE = (DraftSource.HIDDEN, DraftSource.TOKENS, DraftSource.NOTHING)
"""What a draft of the model may consume, which has no part in such a run."""


class StoringSide:
    """What draft sides of both layers have whose drafts come from a store: it continues texts, and takes in their ends.

    Parameters
    ----------
    setting : Setting
        What the side is made for; of its model, the draft is never asked.
    arrays : str
        What the model computes on.
    make_store, make_corpus, draft : callable
        The host functions that are run.
    store : NgramStore or None
        One that was made for these parameters, but for the number of nodes; None for an empty one.
    """

    def __init__(
        self,
        setting: Setting,
        arrays: str,
        make_store: Callable[[NgramParameters], NgramStore] = NgramStore,
        make_corpus: Callable[..., NgramCorpus] = NgramCorpus,
        draft: Callable[..., NgramDraft] = draft_with_corpora,
        store: NgramStore | None = None,
    ) -> None:
        description = require_model(setting.model, arrays, RUNS_BESIDE)
        own = tuple(one for one in description.kv_components if one.side is Side.TARGET)
        self.facts = SideFacts(
            replace(description, kv_components=own),
            num_candidates=0,
            borrows=False,
            proposes_by_tree=True,
            narrows=False,
            drafts_on_host=True,
        )
        self.parameters: NgramParameters = setting.drafting
        self.store = make_store(self.parameters) if store is None else store
        self._corpora = make_corpora(self.parameters, make_corpus)
        self._draft = draft

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its text."""

    def resized(self, setting: Setting) -> Self:
        """Return a side of other parameters, on the same store if it fits."""
        make: Any = type(self)
        side: Self = make(setting, self.store if has_same_store(self.parameters, setting.drafting) else None)
        return side

    def state(self) -> dict[str, Any]:
        """Return nothing: the store is no state of a row."""
        return {}

    def _continue(self, texts: Sequence[list[int]]) -> list[NgramDraft]:
        """Return a draft after the end of each text."""
        sizes = self.parameters.num_draft_tokens, self.parameters.corpus_budget
        return [self._draft(self.store, self._corpora, text, *sizes) for text in texts]

    def _insert(self, texts: Sequence[list[int]]) -> None:
        """Insert the ends of texts into the store."""
        for text in texts:
            self.store.insert(self._end(text))

    def _end(self, text: list[int]) -> list[int]:
        """Return the end of a text that fills a path of the store."""
        return text[-self.parameters.max_depth :]


def output_tokens(predict: NDArray[np.int32], paths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return int32 [request, node]: the tokens along each accepted path, zeros after it."""
    return np.where(paths >= 0, predict[paths], 0).astype(np.int32)
