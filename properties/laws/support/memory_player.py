"""A request that takes part in a history of an engine's memory."""

from dataclasses import dataclass, field

from specsim.simulation.memory import Holding


@dataclass
class Player:
    """A request. ``num_true`` positions are text on the device; the host knows of them when results arrive.

    ``results`` are counts of accepted tokens on their way, each with the number of retractions at its launch.
    """

    name: int
    prompt: tuple[int, ...]
    holding: Holding
    text: list[int]
    num_true: int = 0
    num_known: int = 0
    num_filled: int = 0
    num_fill: int = 0
    results: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_filling(self) -> bool:
        """Whether its prompt, or its former output behind it, is not complete."""
        return self.num_filled < self.num_fill

    def next_token(self) -> int:
        """Return what the model outputs behind the text."""
        return (sum(self.text) + len(self.text) + self.name) % 3
