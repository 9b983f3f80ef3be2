"""What a machine does as one number: two runs of one seed have to do the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from specsim.simulation.requests import Request

TRACE_BYTES = 8


class Trace:
    """A hash of all that was noted, in order."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=TRACE_BYTES)

    def note(self, *values: int | str) -> None:
        """Add something that happened."""
        self._hash.update(repr(values).encode())

    def note_requests(self, requests: Sequence[Request]) -> None:
        """Add what requests have become."""
        for request in requests:
            last = request.output[-1] if request.output else -1
            self.note(request.request_id, request.row, request.num_committed, len(request.output), last)

    def note_end(self, request: Request) -> None:
        """Add the whole output of a request, and how it ended."""
        self.note(request.request_id, str(request.finish_reason), *request.output)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def joined(*traces: str) -> str:
    """Return the hash of several hashes, in order."""
    return blake2b(" ".join(traces).encode(), digest_size=TRACE_BYTES).hexdigest()


@dataclass(frozen=True)
class Traces:
    """The hashes of two runs of one machine: of the implementation, and of the reference in its place."""

    machine: int
    implementation: tuple[str, str]
    reference: tuple[str, str]

    def complaints(self) -> list[str]:
        """Return who did something else the second time, a line each; of the reference, the suite is at fault."""
        pairs = (("implementation", self.implementation), ("reference", self.reference))
        return [
            f"machine {self.machine}, run twice: trace hash of the {who} = {again}, but should be {first}"
            for who, (first, again) in pairs
            if first != again
        ]

    def __str__(self) -> str:
        words = [" then ".join(dict.fromkeys(pair)) for pair in (self.implementation, self.reference)]
        return f"machine {self.machine}, run twice: trace hash {words[0]}, of the reference {words[1]}"
