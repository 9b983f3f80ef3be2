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


def all_reuses() -> tuple[Reuse, ...]:
    """Return every end in every place."""
    return tuple(Reuse(end, place) for end in End for place in Place)
