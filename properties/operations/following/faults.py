"""Faults in what follows the output."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, of_the_neighbour

_FORBID, _COMMIT = "forbid_tokens", "commit_output_tokens"


def _lengths(change: int) -> Callable[[Named], None]:
    def shift(arguments: Named) -> None:
        arguments["min_tokens"] = np.maximum(arguments["min_tokens"] + change, 0).astype(np.int32)

    return shift


def _root_alone(correct: Function, arguments: Named) -> Any:
    """Answer for every node what is true of its root."""
    width = arguments["num_draft_tokens"]
    masks = correct(**arguments)
    return np.repeat(masks[::width], width, axis=0)


def _squares(arguments: Named) -> Any:
    width = arguments["num_draft_tokens"]
    return arguments["tree_mask"].reshape(-1, width, width)


def _sees_nothing(arguments: Named) -> None:
    arguments["tree_mask"] = np.zeros_like(arguments["tree_mask"])


def _sees_all_before(arguments: Named) -> None:
    width = arguments["num_draft_tokens"]
    arguments["tree_mask"] = np.broadcast_to(np.tri(width, dtype=bool), _squares(arguments).shape).reshape(-1)


def _not_itself(arguments: Named) -> None:
    arguments["tree_mask"] = (_squares(arguments) & ~np.eye(arguments["num_draft_tokens"], dtype=bool)).reshape(-1)


def _last_tokens_alone(arguments: Named) -> None:
    words = arguments["bad_words"].copy()
    words[:, :, :-1] = -1
    arguments["bad_words"] = words


def _first_word_alone(arguments: Named) -> None:
    arguments["bad_words"] = arguments["bad_words"][:, :1]


def _nothing_output(arguments: Named) -> None:
    arguments["recent_tokens"] = np.full_like(arguments["recent_tokens"], -1)


def _one_late(arguments: Named) -> None:
    recent = np.roll(arguments["recent_tokens"], 1, axis=1)
    recent[:, :1] = -1
    arguments["recent_tokens"] = recent


def _without_the_last(arguments: Named) -> None:
    paths = arguments["accept_index"].copy()
    counts = (paths >= 0).sum(axis=1)
    for path, count in zip(paths, counts.tolist(), strict=True):
        path[max(count - 1, 0) : count] = -1
    arguments["accept_index"] = paths


def _once_a_token(correct: Function, arguments: Named) -> None:
    before = arguments["token_counts"].copy()
    correct(**arguments)
    counts = arguments["token_counts"]
    np.minimum(counts, before + 1, out=counts)


def _drafted(correct: Function, arguments: Named) -> None:
    """Commit as many tokens as a request has nodes on its row, accepted or not."""
    paths = arguments["accept_index"].copy()
    width = len(arguments["predict"]) // max(len(paths), 1)
    for request, path in enumerate(paths):
        if path[:1].tolist() != [-1]:
            path[:] = request * width + np.arange(len(path))
    vocab = arguments["token_counts"].shape[1]
    correct(**{**arguments, "accept_index": paths, "predict": arguments["predict"] % vocab})


def _always(counts_all: bool) -> Callable[[Named], None]:
    def change(arguments: Named) -> None:
        arguments["counts_all"] = np.full_like(arguments["counts_all"], counts_all)

    return change


def _by_place(arguments: Named) -> None:
    rows, count = arguments["req_pool_indices"], len(arguments["token_counts"])
    arguments["req_pool_indices"] = np.where(rows > 0, (np.arange(len(rows)) + 1) % count, 0)


def _one_a_verify(correct: Function, arguments: Named) -> None:
    lengths = arguments["num_output_tokens"]
    before = lengths.copy()
    correct(**arguments)
    np.minimum(lengths, before + 1, out=lengths)


def _recent_of_the_root(correct: Function, arguments: Named) -> None:
    recent = arguments["recent_tokens"]
    before = recent.copy()
    correct(**arguments)
    recent[...] = before


MUTANTS = (
    Mutant("OWN-759", _FORBID, "A stop is forbidden one token too long.", given(_lengths(1))),
    Mutant("OWN-760", _FORBID, "A stop is allowed one token too early.", given(_lengths(-1))),
    Mutant("OWN-741", _FORBID, "Every node forbids what its root does.", answering(_root_alone)),
    Mutant("OWN-742", _FORBID, "The drafts before a node do not count as text.", given(_sees_nothing)),
    Mutant("OWN-743", _FORBID, "All drafts of lower numbers count as text.", given(_sees_all_before)),
    Mutant("OWN-744", _FORBID, "A node's own token does not count as text.", given(_not_itself)),
    Mutant("OWN-745", _FORBID, "A request has the bad words of its neighbour.", of_the_neighbour("bad_words")),
    Mutant("OWN-746", _FORBID, "A request has the stops of its neighbour.", of_the_neighbour("stop_mask")),
    Mutant("OWN-747", _FORBID, "The last token of a bad word is forbidden after anything.", given(_last_tokens_alone)),
    Mutant("OWN-748", _FORBID, "A request has one bad word.", given(_first_word_alone)),
    Mutant("OWN-749", _FORBID, "A bad word has to lie within the drafts.", given(_nothing_output)),
    Mutant("OWN-750", _FORBID, "The output is known one token late.", given(_one_late)),
    Mutant("OWN-751", _COMMIT, "The bonus token is not committed.", given(_without_the_last)),
    Mutant("OWN-752", _COMMIT, "A token counts once a verify.", answering(_once_a_token)),
    Mutant("OWN-753", _COMMIT, "What was drafted is committed, accepted or not.", answering(_drafted)),
    Mutant("OWN-754", _COMMIT, "The last token of a verify alone counts.", given(_always(False))),
    Mutant("OWN-755", _COMMIT, "Every token counts where the last one should.", given(_always(True))),
    Mutant("OWN-756", _COMMIT, "Requests write the rows of their places in the batch.", given(_by_place)),
    Mutant("OWN-757", _COMMIT, "The length grows by one a verify.", answering(_one_a_verify)),
    Mutant("OWN-758", _COMMIT, "The last tokens stay those of before.", answering(_recent_of_the_root)),
)  # fmt: skip
