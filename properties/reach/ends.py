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


@dataclass(frozen=True)
class Continued:
    """A text that goes on from what a prefix cache keeps of its output, after one end, on a worker by its name."""

    end: End
    worker: str

    def __str__(self) -> str:
        return f"cached output read again after {self.end}, {self.worker}"


@dataclass(frozen=True)
class RowOfWorker:
    """A row that is used again on a worker by its name."""

    worker: str

    def __str__(self) -> str:
        return f"row used again, {self.worker}"


@dataclass(frozen=True)
class WiderThanTheFirst:
    """A full batch that drafts more than the first iteration did, on a worker by its name."""

    worker: str

    def __str__(self) -> str:
        return f"full batch wider than the first, {self.worker}"


def all_reuses() -> tuple[Reuse, ...]:
    """Return every end in every place."""
    return tuple(Reuse(end, place) for end in End for place in Place)
