"""States as bytes: a copy is one read of them, whatever classes the parts of an implementation are."""

import io
import pickle
from collections.abc import Iterable
from typing import Any


def shared_object(place: int) -> Any:
    """Stand, in the bytes of a state, for what all states share; ``Copies`` puts that in its place."""
    raise LookupError(f"object {place} is known to those who froze it")


class Copies:
    """Freezes and thaws states; what all of them share is named, and never copied.

    Parameters
    ----------
    shared : iterable
        Objects that no event changes, and classes that no module names.
    """

    def __init__(self, shared: Iterable[Any]) -> None:
        self._shared = list(shared)
        self._places = {id(one): place for place, one in enumerate(self._shared)}
        self._found: dict[tuple[str, str], Any] = {(__name__, shared_object.__name__): self._shared.__getitem__}

    def freeze(self, state: Any) -> bytes:
        """Return a state as bytes."""
        written = io.BytesIO()
        _Freezer(written, self._places).dump(state)
        return written.getvalue()

    def thaw(self, frozen: bytes) -> Any:
        """Return a state that shares nothing with any other but what all share."""
        return _Thawer(io.BytesIO(frozen), self._found).load()


class _Freezer(pickle.Pickler):
    def __init__(self, written: io.BytesIO, places: dict[int, int]) -> None:
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self._places = places

    def reducer_override(self, obj: Any) -> Any:
        place = self._places.get(id(obj))
        return NotImplemented if place is None else (shared_object, (place,))


class _Thawer(pickle.Unpickler):
    """Reads bytes that were written in this process, and looks every name up once."""

    def __init__(self, read: io.BytesIO, found: dict[tuple[str, str], Any]) -> None:
        super().__init__(read)
        self._found = found

    def find_class(self, module_name: str, global_name: str) -> Any:
        key = (module_name, global_name)
        if key not in self._found:
            self._found[key] = super().find_class(module_name, global_name)
        return self._found[key]
