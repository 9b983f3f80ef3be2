"""Ways in which a request leaves its row, after each of which a row has to be used again."""

from dataclasses import dataclass
from enum import StrEnum

from specsim.properties.reach.sizes import Place


class End(StrEnum):
    """How a request left its row."""

    LENGTH = "length"
    CONTEXT = "context"
    EOS = "eos"
    STOP_TOKEN = "stop token"
    STOP_STRING = "stop string"
    GRAMMAR = "grammar"
    ABORT = "abort"
    RETRACTION = "retraction"


@dataclass(frozen=True)
class Reuse:
    """A row that is used again after one end in one place."""

    end: End
    place: Place

    def __str__(self) -> str:
        return f"row used again after {self.end}, {self.place}"


def continued(end: End, worker: str) -> str:
    """Tag a text that goes on from what a prefix cache keeps of its output, after one end, on a worker by its name."""
    return f"cached output read again after {end}, {worker}"


def row_of_worker(worker: str) -> str:
    """Tag a row that is used again on a worker by its name."""
    return f"row used again, {worker}"


def wider_than_the_first(worker: str) -> str:
    """Tag a full batch that drafts more than the first iteration did, on a worker by its name."""
    return f"full batch wider than the first, {worker}"


def all_reuses() -> tuple[Reuse, ...]:
    """Return every end in every place."""
    return tuple(Reuse(end, place) for end in End for place in Place)
