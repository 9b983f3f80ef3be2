"""Faults in corpora, in how sources share the nodes of a draft, and in how their drafts become one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from specsim.host.ngram import NgramDraft
from specsim.host.ngram.continuation import Anchor, Continuation
from specsim.host.ngram.draft import emit_draft
from specsim.host.ngram.trees import ROOT, DraftTree
from specsim.properties.mutants.record import Function, Mutant, Named, answering, overriding, unchecked, with_arguments

Method = Callable[..., Any]


@dataclass(frozen=True)
class _Changed:
    """What follows a context in a corpus, seen in another way."""

    node: Continuation
    change: Callable[[list[Continuation]], list[Continuation]]
    level: int = 0
    most_levels: int = 1 << 20

    @property
    def token(self) -> int:
        return self.node.token

    @property
    def count(self) -> int:
        return self.node.count

    def newest_first(self) -> Iterator["_Changed"]:
        if self.level < self.most_levels:
            for child in self.change(list(self.node.newest_first())):
                yield _Changed(child, self.change, self.level + 1, self.most_levels)


def _seen(change: Callable[[list[Continuation]], list[Continuation]]) -> Method:
    def anchors(correct: Method, self: Any, context: Any) -> list[Anchor]:
        return [replace(one, node=_Changed(one.node, change)) for one in correct(self, context)]

    return anchors


def _as_deep_as_a_store(correct: Method, self: Any, context: Any) -> list[Anchor]:
    """Follow a context no further than a path reaches."""
    depth = self._parameters.max_depth
    return [
        replace(one, node=_Changed(one.node, list, 0, depth - one.num_tokens))
        for one in correct(self, context)
        if one.num_tokens < depth
    ]


def _shortest_first(correct: Method, self: Any, context: Any) -> list[Anchor]:
    return list(reversed(correct(self, context)))


def _longest_alone(correct: Method, self: Any, context: Any) -> list[Anchor]:
    return list(correct(self, context)[:1])


def _longer_contexts(correct: Method, self: Any, context: Any) -> list[Anchor]:
    """Match a token more than a path has."""
    sizes = self._parameters
    self._parameters = replace(sizes, max_depth=sizes.max_depth + 1, capacity=sizes.capacity + 1)
    try:
        return list(correct(self, context))
    finally:
        self._parameters = sizes


def _one_document(correct: Method, self: Any, documents: Any, *sizes: Any, **named: Any) -> None:
    correct(self, (tuple(chain.from_iterable(documents)),), *sizes, **named)


def _last_document_is_lost(correct: Method, self: Any, documents: Any, *sizes: Any, **named: Any) -> None:
    correct(self, documents, *sizes, **named)
    correct(self, documents[:-1] if any(documents[:-1]) else documents, *sizes, **named)


def _counted_from_one_more(correct: Method, self: Any, documents: Any, parameters: Any, *most: int) -> None:
    correct(self, documents, parameters, *(one + 1 for one in most))


def _empty_is_taken(correct: Method, self: Any, documents: Any, *sizes: Any) -> None:
    correct(self, documents if any(documents) else ((0,),), *sizes)


def _rest_is_lost(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    most = num_draft_tokens - 1
    return (most - min(budget, most), min(budget, most) // num_corpora) if num_corpora else (most, 0)


def _rounded_up(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    most = num_draft_tokens - 1
    each = -(-min(budget, most) // num_corpora) if num_corpora else 0
    return max(0, most - each * num_corpora), each


def _unbounded(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    each = budget // num_corpora if num_corpora else 0
    return max(0, num_draft_tokens - 1 - each * num_corpora), each


def _root_counts(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    each = min(budget, num_draft_tokens) // num_corpora if num_corpora else 0
    return max(0, num_draft_tokens - 1 - each * num_corpora), each


def _each_gets_all(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    each = min(budget, num_draft_tokens - 1) if num_corpora else 0
    return max(0, num_draft_tokens - 1 - each * num_corpora), each


def _merged(paths_of: Callable[[Sequence[NgramDraft]], Iterator[tuple[int, ...]]]) -> Callable[[Function], Function]:
    """Inject a merge of other paths, or in another order; what is refused stays refused."""

    def answer(correct: Function, arguments: Named) -> NgramDraft:
        merged: NgramDraft = correct(**arguments)
        tree = DraftTree(len(merged.tokens))
        for path in paths_of(arguments["drafts"]):
            place = ROOT
            for token in path:
                if tree.is_full and token not in tree.children[place]:
                    break
                place = tree.reach(place, token)
        return emit_draft(tree, int(merged.tokens[ROOT]), len(merged.tokens))

    return answering(answer)


def _last_draft_first(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (path for draft in reversed(drafts) for path in draft.leaf_paths())


def _last_leaf_first(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (path for draft in drafts for path in reversed(draft.leaf_paths()))


def _node_by_node(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (
        tuple(draft.tokens[np.flatnonzero(row)][1:].tolist())
        for draft in drafts
        for row in draft.tree_mask[1 : draft.num_genuine]
    )


def _padding_as_well(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (path for draft in drafts for path in [*draft.leaf_paths(), *[(0,)] * min(draft.num_padding, 1)])


def _without_the_last_draft(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (path for draft in drafts[:-1] for path in draft.leaf_paths())


def _one_path_each(drafts: Sequence[NgramDraft]) -> Iterator[tuple[int, ...]]:
    return (path for draft in drafts for path in draft.leaf_paths()[:1])


def _store_alone(correct: Function, arguments: Named) -> Any:
    """Ask no corpus where the store knows something."""
    own = arguments["store"].draft(arguments["tokens"], arguments["num_draft_tokens"])
    return correct(**arguments) if own.num_genuine == 1 else own


def _corpora_alone(correct: Function, arguments: Named) -> Any:
    """Ask the store nothing where the corpora could fill the draft but for a rest."""
    merged = correct(**arguments)
    if arguments["corpora"] and arguments["budget"] >= arguments["num_draft_tokens"] - 1:
        return correct(**{**arguments, "store": arguments["corpora"][0]})
    return merged


def _corpora_from_the_last(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "corpora": list(reversed(arguments["corpora"]))})


def _whole_budget_to_the_first(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "corpora": arguments["corpora"][:1]})


_CORPUS: tuple[tuple[int, str, dict[str, Method]], ...] = (
    (0, "What comes first in a corpus is the most recent.", {"_anchors": _seen(lambda children: children[::-1])}),
    (1, "A corpus is followed no deeper than a store.", {"_anchors": _as_deep_as_a_store}),
    (2, "The shortest end that a corpus has comes first.", {"_anchors": _shortest_first}),
    (3, "The longest end that a corpus has is followed alone.", {"_anchors": _longest_alone}),
    (4, "A corpus matches a token more than a path has.", {"_anchors": _longer_contexts}),
    (5, "Documents of a corpus follow each other without a border.", {"__init__": _one_document}),
    (6, "The last document of a corpus is lost.", {"__init__": _last_document_is_lost}),
    (7, "A corpus takes a token more than it may have.", {"__init__": _counted_from_one_more}),
    (8, "An empty corpus is taken.", {"__init__": _empty_is_taken}),
)
_FUNCTIONS: tuple[tuple[int, str, str, Callable[[Function], Function]], ...] = (
    (10, "share_draft_nodes", "What corpora cannot share evenly is lost.", unchecked(_rest_is_lost)),
    (11, "share_draft_nodes", "The share of a corpus is rounded up.", unchecked(_rounded_up)),
    (12, "share_draft_nodes", "A budget is not bounded by the draft.", unchecked(_unbounded)),
    (13, "share_draft_nodes", "The root counts as a node that corpora may draft.", unchecked(_root_counts)),
    (14, "share_draft_nodes", "Each corpus gets the whole budget.", unchecked(_each_gets_all)),
    (15, "merge_drafts", "The paths of the store come last.", _merged(_last_draft_first)),
    (16, "merge_drafts", "The last leaf of a draft is merged first.", _merged(_last_leaf_first)),
    (17, "merge_drafts", "Drafts are merged node by node.", _merged(_node_by_node)),
    (18, "merge_drafts", "Padding is merged like a path.", _merged(_padding_as_well)),
    (19, "merge_drafts", "The last draft is left out.", _merged(_without_the_last_draft)),
    (20, "merge_drafts", "One path of each draft is merged.", _merged(_one_path_each)),
    (21, "draft_with_corpora", "Corpora are asked where the store knows nothing.", answering(_store_alone)),
    (22, "draft_with_corpora", "A corpus stands for the store where the budget is whole.", answering(_corpora_alone)),
    (23, "draft_with_corpora", "Corpora are merged from the last to the first.", answering(_corpora_from_the_last)),
    (24, "draft_with_corpora", "The first corpus gets the budget of all.", answering(_whole_budget_to_the_first)),
    (25, "draft_with_corpora", "The budget has a node less.", with_arguments(budget=lambda budget: max(0, budget - 1))),
)

MUTANTS = (
    *(
        Mutant(f"OWN-{2060 + number}", "NgramCorpus", summary, overriding(**faults))
        for number, summary, faults in _CORPUS
    ),
    *(Mutant(f"OWN-{2060 + number}", name, summary, inject) for number, name, summary, inject in _FUNCTIONS),
)
