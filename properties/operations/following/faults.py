"""Faults in what follows the output."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_by_operation, of_the_neighbour, with_arguments

_SEEN = "squares[request, node, draft]"
_RECENT = "recent_tokens[request].tolist()"
_COMMITTED = "predict[path[path >= 0]].tolist()"
_COUNTED = "tokens if counts_all[request] else tokens[-1:]"

_drafted = edited(
    _COMMITTED,
    "(predict[(np.arange(len(path)) + request * (len(predict) // len(accept_index)))[: len(path) * (path[0] >= 0)]]"
    " % token_counts.shape[1]).tolist()",
)
_by_place = edited("req_pool_indices[request]", "req_pool_indices[request] and (request + 1) % len(token_counts)")
_one_a_verify = edited("num_output_tokens[row] += len(tokens)", "num_output_tokens[row] += 1")
_recent_ones_stay = edited('recent_tokens[row] = text[len(text) - axes["recent"] :]', "")
_one_too_long = edited("min_tokens[request]", "min_tokens[request] + 1")
_after_anything = edited("_ends_with(text, before)", "True")
_one_bad_word = edited("bad_words[request].tolist()", "bad_words[request, :1].tolist()")

MUTANTS = mutants_by_operation(
    forbid_tokens=(
        ("OWN-759", "A stop is forbidden one token too long.", _one_too_long),
        ("OWN-760", "A stop is allowed one token too early.", edited("min_tokens[request]", "min_tokens[request] - 1")),
        ("OWN-741", "Every node forbids what its root does.", edited(_SEEN, "squares[request, 0, draft]")),
        ("OWN-742", "The drafts before a node do not count as text.", edited(_SEEN, "False")),
        ("OWN-743", "All drafts of lower numbers count as text.", edited(_SEEN, "draft <= node")),
        ("OWN-744", "A node's own token does not count as text.", edited(_SEEN, f"{_SEEN} and draft != node")),
        ("OWN-745", "A request has the bad words of its neighbour.", of_the_neighbour("bad_words")),
        ("OWN-746", "A request has the stops of its neighbour.", of_the_neighbour("stop_mask")),
        ("OWN-747", "The last token of a bad word is forbidden after anything.", _after_anything),
        ("OWN-748", "A request has one bad word.", _one_bad_word),
        ("OWN-749", "A bad word has to lie within the drafts.", edited(_RECENT, "[-1] * recent_tokens.shape[1]")),
        ("OWN-750", "The output is known one token late.", edited(_RECENT, f"[-1, *{_RECENT}][:-1]")),
    ),
    commit_output_tokens=(
        ("OWN-751", "The bonus token is not committed.", edited(_COMMITTED, f"{_COMMITTED}[:-1]")),
        ("OWN-752", "A token counts once a verify.", edited(_COUNTED, f"{{*({_COUNTED})}}")),
        ("OWN-753", "What was drafted is committed, accepted or not.", _drafted),
        ("OWN-754", "The last token of a verify alone counts.", with_arguments(counts_all=np.zeros_like)),
        ("OWN-755", "Every token counts where the last one should.", with_arguments(counts_all=np.ones_like)),
        ("OWN-756", "Requests write the rows of their places in the batch.", _by_place),
        ("OWN-757", "The length grows by one a verify.", _one_a_verify),
        ("OWN-758", "The last tokens stay those of before.", _recent_ones_stay),
    ),
)
