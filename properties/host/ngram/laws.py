"""Laws of n-gram drafts: what a store has and forgets, which paths a draft holds, and how sources share it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.ngram import LARGEST_TOKEN, NgramDraft, NgramParameters
from specsim.properties.host.ngram import oracle
from specsim.properties.host.ngram import strategy as strategies
from specsim.properties.laws.checks import for_each, refuses, require, require_equal, states
from specsim.rejection import Reason

Expected = list[list[oracle.Path]]
Check = Callable[[str, NgramDraft, strategies.Text, Expected, int], None]
"""Takes what is drafted for, the draft, its context, the paths that it may have, and its number of nodes."""


def a_store_forgets_what_it_has_no_room_for(backend: Backend, history: strategies.NgramHistory) -> None:
    """A store has every window that fits, and counts each node that it gave up for another."""
    store, plain = backend.host("NgramStore")(history.parameters), oracle.PlainStore(history.parameters)
    for text, _ in history.turns:
        store.insert(text)
        plain.insert(text)
        require(store.num_nodes == plain.num_nodes, f"num_nodes after {text}", store.num_nodes, plain.num_nodes)
        got, expected = store.num_forgotten, plain.num_forgotten
        require(got == expected, f"num_forgotten after {text}", got, expected)


def a_draft_has_the_paths_of_all_windows(backend: Backend, history: strategies.NgramHistory) -> None:
    """The root paths of a draft, and how many fill it up, are those that a list of all windows gives."""
    _play(backend, history, _check_paths)


def nodes_are_numbered_level_by_level_as_created(backend: Backend, history: strategies.NgramHistory) -> None:
    """Levels follow each other, siblings stand as they were created, and what fills a draft up comes last."""
    _play(backend, history, _check_numbers)


def a_mask_row_is_its_parents_row_and_itself(backend: Backend, history: strategies.NgramHistory) -> None:
    """A draft is a tree below the last token of its context, with the asked number of nodes."""
    _play(backend, history, _check_mask)


def drafting_changes_nothing(backend: Backend, history: strategies.NgramHistory) -> None:
    """A store that was asked in between drafts what one drafts that was not."""
    asked, quiet = (backend.host("NgramStore")(history.parameters) for _ in range(2))
    for text, contexts in history.turns:
        asked.insert(text)
        quiet.insert(text)
        for context in contexts:
            asked.draft(context)
    for _, contexts in history.turns:
        for context in contexts:
            require_equal(f"draft of {context}", asked.draft(context).tokens, quiet.draft(context).tokens)


def a_store_drafts_as_many_nodes_as_it_is_asked_for(backend: Backend, history: strategies.NgramHistory) -> None:
    """A number of nodes that comes with a call takes the place of that of the parameters."""
    make, sizes = backend.host("NgramStore"), history.parameters
    store, others = make(sizes), [make(replace(sizes, num_draft_tokens=num_nodes)) for num_nodes in (1, 2, 3)]
    for text, contexts in history.turns:
        for one in (store, *others):
            one.insert(text)
        for num_nodes, (context, other) in enumerate(zip(contexts, others, strict=False), 1):
            require_equal(f"draft of {context}", store.draft(context, num_nodes).tokens, other.draft(context).tokens)


def what_is_no_token_is_refused(backend: Backend, history: strategies.NgramHistory) -> None:
    """Neither a text nor a context has such ids, a context has a token, and what is refused leaves no trace."""
    store = backend.host("NgramStore")(history.parameters)
    text = history.turns[0][0]
    store.insert(text)
    num_nodes = store.num_nodes
    for wrong in (-1, LARGEST_TOKEN + 1):
        refuses(Reason.TOKEN_OUT_OF_RANGE, partial(store.insert, (*text, 1, wrong)))
        refuses(Reason.TOKEN_OUT_OF_RANGE, partial(store.draft, (*text, wrong)))
    refuses(Reason.COUNT_OUT_OF_RANGE, partial(store.draft, ()))
    for size in (0, 1025):
        refuses(Reason.SCALAR_OUT_OF_RANGE, partial(store.draft, (1,), size))
    require(store.num_nodes == num_nodes, "num_nodes after what was refused", store.num_nodes, num_nodes)


def a_corpus_drafts_what_its_documents_say(backend: Backend, case: strategies.CorporaCase) -> None:
    """A corpus knows each piece of its documents, how often it is there and where last, and none across two of them."""
    sizes = case.parameters
    for documents in case.corpora:
        corpus = backend.host("NgramCorpus")(documents, sizes)
        below = oracle.below_documents(documents)
        for context in case.contexts:
            expected = _every(below, context, sizes, sizes.num_draft_tokens - 1)
            _check_all(f"draft of {context}", corpus.draft(context), context, expected, sizes.num_draft_tokens)


def a_corpus_is_neither_empty_nor_too_long(backend: Backend, case: strategies.CorporaCase) -> None:
    """Documents have a token, and no more than they may have together."""
    corpus = backend.host("NgramCorpus")
    refuses(Reason.COUNT_OUT_OF_RANGE, lambda: corpus(((),), case.parameters))
    for documents in case.corpora:
        num_tokens = sum(map(len, documents))
        corpus(documents, case.parameters, num_tokens)
        refuses(Reason.COUNT_OUT_OF_RANGE, partial(corpus, documents, case.parameters, num_tokens - 1))
        refuses(Reason.TOKEN_OUT_OF_RANGE, partial(corpus, (*documents, (-1,)), case.parameters))


def corpora_share_their_budget_evenly(backend: Backend, case: strategies.SharedBudget) -> None:
    """Each corpus gets as much as any other, together what the budget and the draft allow; the store gets the rest."""
    of_store, of_each = backend.host("share_draft_nodes")(case.num_draft_tokens, case.num_corpora, case.budget)
    most = min(case.budget, case.num_draft_tokens - 1)
    even = [each for each in range(most + 1) if case.num_corpora * each <= most] if case.num_corpora else [0]
    require(of_each == even[-1], f"nodes of each corpus of {case}", of_each, even[-1])
    rest = case.num_draft_tokens - 1 - case.num_corpora * even[-1]
    require(of_store == rest, f"nodes of the store of {case}", of_store, rest)


def a_merged_draft_has_the_paths_of_each(backend: Backend, case: strategies.CorporaCase) -> None:
    """Every path of every draft is in the whole, once, nothing else is, and padding is made anew."""
    merge, store = backend.host("merge_drafts"), backend.host("NgramStore")(case.parameters)
    for text in case.said:
        store.insert(text)
    for context in case.contexts:
        drafts = [store.draft(context)]
        drafts += [backend.host("NgramCorpus")(one, case.parameters).draft(context) for one in case.corpora]
        drafts += [store.draft(context, 2)]
        num_nodes = sum(len(draft.tokens) - 1 for draft in drafts) + 1
        genuine = [_paths(draft)[: len(draft.tokens) - 1 - draft.num_padding] for draft in drafts]
        expected = [oracle.merged_nodes(genuine)]
        merged = merge(drafts, num_nodes)
        _check_all(f"merged draft of {context}", merged, context, expected, num_nodes)
        num_padding = num_nodes - 1 - len(expected[0])
        require(merged.num_padding == num_padding, "num_padding", merged.num_padding, num_padding)
        if num_nodes > 1:
            refuses(Reason.INCONSISTENT_LENGTHS, partial(merge, drafts, num_nodes - 1))
    refuses(Reason.INCONSISTENT_LENGTHS, lambda: merge([], 1))
    refuses(Reason.NODE_OUT_OF_RANGE, lambda: merge([store.draft((1,)), store.draft((2,))], 2 * num_nodes))


def a_store_and_corpora_share_one_draft(backend: Backend, case: strategies.CorporaCase) -> None:
    """Each source drafts in its share of the nodes, and the paths of the store come first."""
    draft, sizes = backend.host("draft_with_corpora"), case.parameters
    store, plain = backend.host("NgramStore")(sizes), oracle.PlainStore(sizes)
    for text in case.said:
        store.insert(text)
        plain.insert(text)
    corpora = [backend.host("NgramCorpus")(documents, sizes) for documents in case.corpora]
    most = sizes.num_draft_tokens - 1
    of_each = min(case.budget, most) // len(corpora) if corpora else 0
    for context in case.contexts:
        sources = [_every(plain.below(), context, sizes, most - len(corpora) * of_each)]
        sources += [_every(oracle.below_documents(documents), context, sizes, of_each) for documents in case.corpora]
        merged = [oracle.merged_nodes(one) for one in zip(*sources, strict=True)]
        expected = merged if of_each else sources[0]
        whole = draft(store, corpora, context, sizes.num_draft_tokens, case.budget)
        _check_all(f"draft of {context}", whole, context, expected, sizes.num_draft_tokens)


def _play(backend: Backend, history: strategies.NgramHistory, check: Check) -> None:
    """Insert each text into a store and into the list, and look at every draft."""
    sizes = history.parameters
    store, plain = backend.host("NgramStore")(sizes), oracle.PlainStore(sizes)
    for text, contexts in history.turns:
        store.insert(text)
        plain.insert(text)
        below = plain.below()
        for context in contexts:
            expected = _every(below, context, sizes, sizes.num_draft_tokens - 1)
            check(f"draft of {context}", store.draft(context), context, expected, sizes.num_draft_tokens)


def _every(below: oracle.Below, context: strategies.Text, sizes: NgramParameters, most: int) -> Expected:
    return [oracle.created_nodes(below, context, sizes, most, number) for number in oracle.EXACT_AND_ROUNDED]


def _paths(draft: NgramDraft) -> list[oracle.Path]:
    """Return the tokens after the root up to each other node."""
    tokens, visible = np.asarray(draft.tokens), np.asarray(draft.tree_mask)
    return [tuple(tokens[row][1:].tolist()) for row in visible[1:]]


def _filled(created: Sequence[oracle.Path], num_nodes: int) -> list[oracle.Path]:
    return [*oracle.numbered_nodes(created), *[(0,)] * (num_nodes - 1 - len(created))]


def _check_paths(what: str, draft: NgramDraft, context: strategies.Text, expected: Expected, num_nodes: int) -> None:
    got = Counter(_paths(draft))
    wanted = [Counter(_filled(created, num_nodes)) for created in expected]
    require(got in wanted, f"paths of the {what}", sorted(got.elements()), sorted(wanted[0].elements()))


def _check_numbers(what: str, draft: NgramDraft, context: strategies.Text, expected: Expected, num_nodes: int) -> None:
    got, wanted = _paths(draft), [_filled(created, num_nodes) for created in expected]
    require(got in wanted, f"paths by node of the {what}", got, wanted[0])


def _check_mask(what: str, draft: NgramDraft, context: strategies.Text, expected: Expected, num_nodes: int) -> None:
    tokens, visible = np.asarray(draft.tokens), np.asarray(draft.tree_mask)
    require(tokens.shape == (num_nodes,), f"shape of the tokens of the {what}", tokens.shape, (num_nodes,))
    require_equal(f"root of the {what}", tokens[0], context[-1])
    parents = [-1, *(int(np.flatnonzero(visible[node, :node])[-1:].sum()) for node in range(1, num_nodes))]
    rows = np.eye(num_nodes, dtype=np.bool_)
    for node, parent in enumerate(parents[1:], 1):
        rows[node] |= rows[parent]
    require_equal(f"tree_mask of the {what}", visible, rows)
    levels = rows.sum(axis=1).tolist()
    while len(levels) > 1 and (tokens[len(levels) - 1], levels[-1]) == (0, 2):
        levels.pop()
    require(levels == sorted(levels), f"levels of the {what}", levels, "ascending")


def _check_all(what: str, draft: NgramDraft, context: strategies.Text, expected: Expected, num_nodes: int) -> None:
    for check in (_check_paths, _check_numbers, _check_mask):
        check(what, draft, context, expected, num_nodes)


_SOURCES = ("merge_drafts", "NgramStore", "NgramCorpus")

PROPERTIES = states(
    "ngram",
    (for_each(a_store_forgets_what_it_has_no_room_for), strategies.ngram_histories, "NgramStore"),
    (for_each(a_draft_has_the_paths_of_all_windows), strategies.ngram_histories, "NgramStore"),
    (for_each(nodes_are_numbered_level_by_level_as_created), strategies.ngram_histories, "NgramStore"),
    (for_each(a_mask_row_is_its_parents_row_and_itself), strategies.ngram_histories, "NgramStore"),
    (for_each(drafting_changes_nothing), strategies.ngram_histories, "NgramStore"),
    (for_each(a_store_drafts_as_many_nodes_as_it_is_asked_for), strategies.ngram_histories, "NgramStore"),
    (for_each(what_is_no_token_is_refused), strategies.ngram_histories, "NgramStore"),
    (for_each(a_corpus_drafts_what_its_documents_say), strategies.corpora_cases, "NgramCorpus"),
    (for_each(a_corpus_is_neither_empty_nor_too_long), strategies.corpora_cases, "NgramCorpus"),
    (for_each(corpora_share_their_budget_evenly), strategies.shared_budgets, "share_draft_nodes"),
    (for_each(a_merged_draft_has_the_paths_of_each), strategies.corpora_cases, _SOURCES),
    (for_each(a_store_and_corpora_share_one_draft), strategies.corpora_cases, ("draft_with_corpora", *_SOURCES)),
)
