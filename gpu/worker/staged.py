"""Stages of a batch by name: each runs when it is asked for, and once captured it replays."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.graphs import CapturedGraph, capture

Stage = Callable[[], None]


class Staged:
    """Functions that read and write memory of the batch alone.

    Parameters
    ----------
    stages : mapping
        They by name, in the order in which a batch runs them.
    """

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        self._stages = stages
        self._graphs: dict[str, CapturedGraph] = {}

    def run(self, name: str) -> None:
        """Run a stage, or replay its graph."""
        if self._graphs:
            self._graphs[name].graph.replay()
        else:
            self._stages[name]()

    def capture(self, rows: Tensor, pool: Any | None) -> Any:
        """Capture every stage into the memory that all graphs of the worker share, and return that memory.

        A capture runs nothing, so each graph is replayed once: the warm-up of the next stage reads what it leaves.
        """
        for name, stage in self._stages.items():
            captured = capture(_ignoring_rows(stage), rows, DEVICE, pool)
            captured.graph.replay()
            self._graphs[name] = captured
            pool = captured.graph.pool()
        return pool


def _ignoring_rows(stage: Stage) -> Callable[[Tensor], None]:
    return lambda _: stage()
