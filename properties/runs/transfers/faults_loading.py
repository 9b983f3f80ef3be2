"""Faults in what an engine loads of another one's text: too much of it, in other slots, of another time."""

from collections.abc import Callable

from specsim.algorithms import WORKERS
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    answering,
    edits_of_scheduler,
    mutants_of,
    mutants_of_loops,
    with_arguments,
    with_pools,
)


def _loading(*pairs: str) -> Callable[..., Function]:
    return with_pools(edited(*pairs, within="Pools.load"))


def _exporting(*pairs: str) -> Callable[..., Function]:
    return with_pools(edited(*pairs, within="Pools.export"))


_WINDOW_STALE = _exporting(
    "return contents",
    """
    if self.swa_kv:
        passed = [np.maximum(np.arange(len(layer)) - self.window, 0) for layer in contents["swa_kv"]]
        contents["swa_kv"] = [layer[rows] for layer, rows in zip(contents["swa_kv"], passed, strict=True)]
    return contents
    """,
)

_OPERATION = "loadable_positions"

MUTANTS = (
    *mutants_of(_OPERATION,
        ("OWN-4730", "The last token is loaded, too, if its entry came.",
         with_arguments(num_tokens=lambda num_tokens: num_tokens + 1)),
        ("OWN-4731", "Positions are loaded that the draft does not have.", with_arguments(num_draft=None)),
        ("OWN-4732", "States are loaded with positions that they have not read.", with_arguments(num_states=None)),
        ("OWN-4733", "A window is loaded that lacks its first position.",
         with_arguments(window=lambda window: max(window - 1, min(window, 1)))),
        ("OWN-4734", "A page is loaded whose window came in part.", with_arguments(page_size=1)),
        ("OWN-4735", "A window that is gone is loaded.", with_arguments(window_start=0)),
        ("OWN-4736", "The last position that came is computed again.",
         answering(lambda correct, named: max(correct(**named) - 1, 1))),
        ("OWN-4737", "One position more than came is loaded.",
         with_arguments(num_target=lambda num_target: num_target + 1)),
    ),
    *mutants_of_loops(_OPERATION, tuple(WORKERS), (
        ("OWN-4740", "Entries are loaded into the slot after theirs.", _loading("slots", "[*slots[1:], *slots[:1]]")),
        ("OWN-4741", "A token counts as loaded that was not.",
         _loading("slots", "slots[:-1]", "contents[name]", "[layer[: len(chosen)] for layer in contents[name]]")),
        ("OWN-4742", "The window is loaded one position late.",
         _loading("contents.get('swa_kv', ())", "[np.roll(one, 1, axis=0) for one in contents.get('swa_kv', ())]")),
        ("OWN-4743", "What a window has passed leaves as its entries.", _WINDOW_STALE),
        ("OWN-4744", "The window is loaded by the map of slots as it was.",
         _loading("self.full_to_swa", "np.roll(self.full_to_swa, 1)")),
        ("OWN-4745", "States leave as they are, and not as they were.", _exporting("state[row].copy()", "state[row]")),
        ("OWN-4746", "States are not loaded.", _loading("state[row] = entries", "")),
        ("OWN-4747", "The states of one layer are loaded into all.",
         _loading("state[row] = entries",
                  "first = contents['states'][0]\n"
                  "state[row] = first if first.shape == entries.shape else entries")),
        ("OWN-4748", "The draft's entries are not loaded.",
         _loading("((Side.TARGET, 'target_kv'), (Side.DRAFT, 'draft_kv'))", "((Side.TARGET, 'target_kv'),)")),
    )),
    *edits_of_scheduler(
        """
        @@ loadable_positions in Scheduler._load
        OWN-4749 The front of a text is loaded after what was hit of it.
        - load.after(start)
        + load.after(start) | {
        +     name: [layer[: len(request.slots) - start] for layer in load.contents[name]]
        +     for name in ("target_kv", "draft_kv")
        + }
        """
    ),
)  # fmt: skip
