"""What a plug-in promises by its predicates and by the tokens that it brings to a verify (semantics G.2, G.3, G.4)."""

from collections.abc import Iterator
from typing import Any

from specsim.algorithms.flags import Flags
from specsim.algorithms.plugin import CustomSpecAlgo
from specsim.config import MOST_NODES
from specsim.rejection import contradiction

PREDICATES = tuple(name for name in Flags.__dataclass_fields__ if name.startswith(("is_", "supports_")))
WIDTHS = (2, 3, 8, 64)
"""Numbers of draft tokens that a plug-in is asked about."""

OF_EAGLE = ("is_eagle3", "is_frozen_kv_mtp")
"""What only members of the EAGLE family are."""

Promise = tuple[str, object, str, str]
"""What was asked, what it said, what it should have said, and why."""


def check_promises(plugin: CustomSpecAlgo) -> None:
    """Raise unless what a plug-in says of itself fits together.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION, with the plug-in's name and what it says.
    """
    for what, got, expected, because in _broken(plugin):
        raise contradiction(f"{plugin.name}.{what}", got, expected, because)


def verify_width_of(plugin: CustomSpecAlgo, num_draft_tokens: int, is_draft_worker: bool) -> int:
    """Return how many tokens a plug-in says that a request brings to a target verify.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: that is no number of nodes, or another one when it is asked again.
    """
    first, again = (plugin.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker) for _ in range(2))
    what = f"{plugin.name}.get_num_tokens_per_bs_for_target_verify({num_draft_tokens}, {is_draft_worker})"
    if not _is_width(first):
        expected, because = f"1 to {MOST_NODES}", "a request brings its root at least, and a tree at most"
        raise contradiction(what, first, expected, because)
    if again != first:
        because = "graphs are captured for one number of tokens"
        raise contradiction(what, again, f"{first}, as before", because)
    return first


def _broken(plugin: CustomSpecAlgo) -> Iterator[Promise]:
    """Yield the promises that a plug-in breaks."""
    said: dict[str, Any] = {}
    for name in (*PREDICATES, "is_speculative", "is_some"):
        said[name] = _ask(plugin, name)
        if not isinstance(said[name], bool):
            yield f"{name}()", said[name], "True or False", "engines branch on it"
    drafts = "what is registered drafts"
    for name, expected in (("is_none", False), ("is_speculative", True), ("is_some", True)):
        if said[name] is not expected:
            yield f"{name}()", said[name], str(expected), drafts
    if plugin.supports_overlap and not said["supports_spec_v2"]:
        yield "supports_spec_v2()", said["supports_spec_v2"], "True", "it says that its worker can be overlapped"
    for name in OF_EAGLE:
        if said[name] and not said["is_eagle"]:
            yield "is_eagle()", said["is_eagle"], "True", f"{name}() is True"
    for num_draft_tokens in WIDTHS:
        verify_width_of(plugin, num_draft_tokens, is_draft_worker=False)
        if said["supports_target_verify_for_draft"]:
            verify_width_of(plugin, num_draft_tokens, is_draft_worker=True)


def _ask(plugin: CustomSpecAlgo, name: str) -> Any:
    """Return the answer of a predicate."""
    predicate = next(vars(base)[name] for base in type(plugin).__mro__ if name in vars(base))
    return predicate(plugin)


def _is_width(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_NODES
