"""Parts of somebody else beside specsim's own: whatever one of them hands out or refuses, the other has to."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.conformance.catalogue import Kind, names_of
from specsim.properties.laws.checks import require_same
from specsim.rejection import SpecRejection
from specsim.simulation.memory import KeyUnit, Match, RadixCache
from specsim.simulation.memory.radix_node import RadixNode

Nodes = tuple[Any, Any]


class Twin:
    """Two allocators that are asked the same.

    Parameters
    ----------
    make, make_own : callable
        Make the part that is tried, and specsim's own.
    shown : tuple of str
        Properties that are compared after each call.
    """

    def __init__(
        self, make: Callable[..., Any], make_own: Callable[..., Any], shown: tuple[str, ...], *arguments: Any
    ) -> None:
        self.tried, self.own = make(*arguments), make_own(*arguments)
        self.shown = shown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("tried", "own", "shown"):
            raise AttributeError(name)
        value = getattr(self.tried, name)
        if callable(value):
            return lambda *arguments: self.ask(name, arguments, arguments)
        require_same(f"{type(self.tried).__name__}.{name}", value, getattr(self.own, name))
        return value

    def ask(self, name: str, arguments: Sequence[Any], own_arguments: Sequence[Any]) -> Any:
        """Ask both, and return what both answered or raise what both refused."""
        return self.agreed(name, _answer(self.tried, name, arguments), _answer(self.own, name, own_arguments))

    def agreed(self, name: str, got: Any, expected: Any) -> Any:
        """Return what both answered, or raise what both refused."""
        what = f"{type(self.tried).__name__}.{name}"
        reasons = [one.reason if isinstance(one, SpecRejection) else None for one in (got, expected)]
        require_same(f"refusal of {what}", *reasons)
        if isinstance(got, SpecRejection):
            raise got
        require_same(what, got, expected)
        for shown in self.shown:
            require_same(f"{shown} after {name}", getattr(self.tried, shown), getattr(self.own, shown))
        return got


class TwinCache(Twin):
    """Two prefix caches that are asked the same; a node of one is matched with a node of the other."""

    def match(self, key: Sequence[KeyUnit]) -> Match:
        """Find the longest cached front of a key."""
        got, own = self.tried.match(key), self.own.match(key)
        self.agreed("match", got.slots, own.slots)
        return Match(got.slots, (got.node, own.node))

    def lock(self, node: Nodes) -> None:
        """Keep a matched front."""
        self.ask("lock", node[:1], node[1:])

    def unlock(self, node: Nodes) -> None:
        """Stop keeping it."""
        self.ask("unlock", node[:1], node[1:])


class TwinParts(CallsByName):
    """An implementation whose allocators and cache run beside specsim's own, where it brings some.

    Parameters
    ----------
    operations : CallsByName
        What is tried.
    own : Backend
        Where specsim's parts are.
    """

    def __init__(self, operations: CallsByName, own: Backend) -> None:
        self._operations, self._own = operations, own

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call what is tried."""
        return self._operations.call(name, *positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a host function or a part; one that has a twin with its twin."""
        tried, own = self._operations.host(name), self._own.host(name)
        if name not in _SHOWN or tried is own:
            return tried
        return partial(TwinCache if name == "RadixCache" else Twin, tried, own, _SHOWN[name])

    def classes(self) -> list[type]:
        """Return the classes of what is tried, which no module may name."""
        return [part for part in map(self._operations.host, names_of(Kind.PART)) if isinstance(part, type)]


def known_cache(cache: Any) -> RadixCache | None:
    """Return the cache that can be looked into: specsim's own, or the twin of another one."""
    known = cache.own if isinstance(cache, TwinCache) else cache
    return known if isinstance(known, RadixCache) else None


def known_node(node: object) -> RadixNode | None:
    """Return the node of the cache that can be looked into; None where nothing is locked."""
    known = node[1] if isinstance(node, tuple) else node
    return known if isinstance(known, RadixNode) else None


def cached_texts(cache: RadixCache) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the text and the slots of every leaf; pair keys name the token after the last slot, too."""
    paths: list[tuple[RadixNode, list[int], list[int]]] = [(child, [], []) for child in cache.root.children.values()]
    while paths:
        node, tokens, slots = paths.pop()
        pairs = [unit for unit in node.units if isinstance(unit, tuple)]
        tokens = [*tokens[:-1], pairs[0][0], *(after for _, after in pairs)]
        slots = [*slots, *node.slots]
        if not node.children:
            yield tokens, slots
        paths.extend((child, tokens, slots) for child in node.children.values())


def _answer(part: Any, name: str, arguments: Sequence[Any]) -> Any:
    try:
        return getattr(part, name)(*arguments)
    except SpecRejection as refused:
        return refused


_PAGES = ("free_pages", "owned_pages", "freed_in_group", "num_free")
_SHOWN = {
    "SlotAllocator": _PAGES,
    "PageAllocator": _PAGES,
    "RowAllocator": ("num_free", "owned"),
    "RadixCache": ("slots", "num_cached", "num_evictable"),
}
