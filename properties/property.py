"""One property: what is drawn, and what must hold of an implementation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, SCHEDULER, Backend
from specsim.conformance.limits import Limits

OF_EAGLE = (EAGLE_V1, EAGLE_V2)
"""The workers of EAGLE, of either kind."""

OF_ENGINES = (*OF_EAGLE, SCHEDULER)
"""The same, and who schedules them."""

FEWEST_FOR_WEIGHTY = 20
"""Examples of a run from which on it has any of a property that is as long as many; fewer are a quick look."""


@dataclass(frozen=True)
class Property:
    """A law with the strategy that feeds it.

    Parameters
    ----------
    name : str
        The fact that the law states, as ``group.fact``.
    catalogue : str
        Its number in the list of properties (``P18``), or an empty string.
    operations : tuple of str
        The operations that it calls; without one of them it cannot be run, unless ``fills_missing``.
    strategy : callable
        Returns the strategy of its cases. A case is whatever the law takes, most often the arguments by name.
    law : callable
        Takes the implementation and a case; raises AssertionError when the law is broken.
    is_slow : bool
        Whether one example runs a whole engine rather than one operation.
    fills_missing : bool
        Whether the reference supplies what an implementation lacks, as long as it has one of the operations.
    least_examples : int
        How many examples a short run gives it too, because one or two of them would show nothing.
    plays : tuple of str
        Names of what of an implementation it plays whole runs on, its workers or its scheduler; one of them is enough.
    must_reach : callable or None
        Takes the implementation and returns the tags that its examples have to meet together (``reached``).
    tags : callable or None
        Takes the limits of the implementation and returns the tags that ``specsim check --reach`` prints and requires.
    weight : int
        How many examples of others one of its own stands for: it gets so many times fewer, but at least
        ``least_examples`` of them unless the run is a quick look.
    """

    name: str
    catalogue: str
    operations: tuple[str, ...]
    strategy: Callable[[], SearchStrategy[Any]]
    law: Callable[[Backend, Any], None]
    is_slow: bool = False
    fills_missing: bool = False
    least_examples: int = 1
    plays: tuple[str, ...] = ()
    must_reach: Callable[[Backend], tuple[str, ...]] | None = None
    tags: Callable[[Limits], tuple[str, ...]] | None = None
    weight: int = 1

    @property
    def runs_worker(self) -> bool:
        """Whether it plays whole runs on an implementation's own worker where there is one."""
        return bool(self.plays)
