"""The strategies fill stores to the last node, forget in the middle of a text, and share every kind of budget."""

from itertools import chain, pairwise

import pytest

from specsim.host.ngram import TreeMode
from specsim.properties.host.ngram.oracle import PlainStore, created_nodes
from specsim.properties.host.ngram.strategy import SharedBudget, corpora_cases, ngram_histories, shared_budgets
from tests.quality.pool import drawn


def windows_of(history):
    """Yield the list of windows before each of them is inserted, the window, and how far it is inside its text."""
    plain, depth = PlainStore(history.parameters), history.parameters.max_depth
    for text, _ in history.turns:
        for start in range(len(text)):
            window = text[start : start + depth]
            yield plain, window, start
            plain.insert_window(window)


def drafts_of(history):
    """Yield what stands below each path, the context, and the nodes of its draft."""
    plain, sizes = PlainStore(history.parameters), history.parameters
    for text, contexts in history.turns:
        plain.insert(text)
        below = plain.below()
        for context in contexts:
            yield below, context, created_nodes(below, context, sizes, sizes.num_draft_tokens - 1, float)


def anchors_of(history, below, context):
    longest = min(len(context), history.parameters.max_depth)
    ends = [context[-length:] for length in range(longest, 0, -1)]
    return [end for end in ends if below(end)]


def room_beside_a_path(num_nodes):
    return lambda history: history.parameters.capacity - history.parameters.max_depth - 1 == num_nodes


def forgets_at(is_here):
    def forgets(history):
        sizes = history.parameters
        return any(
            plain.num_nodes + len(window) > sizes.capacity and is_here(plain, window, start)
            for plain, window, start in windows_of(history)
        )

    return forgets


def is_inside(plain, window, start):
    return start > 0 and plain.num_forgotten == 0


def drives_out_its_own(plain, window, start):
    num_lost = plain.num_nodes + len(window) - plain.parameters.capacity
    return any(window[: len(path)] == path for path in plain.latest[-num_lost:])


def fits_exactly(history):
    return any(plain.num_nodes + len(window) == history.parameters.capacity for plain, window, _ in windows_of(history))


def has_anchors(num_anchors):
    def has(history):
        return any(len(anchors_of(history, below, context)) >= num_anchors for below, context, _ in drafts_of(history))

    return has


def shares_a_continuation(history):
    """Return whether two ends of a context go on with one token, and after it differently."""
    for below, context, _ in drafts_of(history):
        ends = anchors_of(history, below, context)
        for longer, shorter in pairwise(ends):
            for token, _ in below(longer):
                if {one for one, _ in below((*longer, token))} != {one for one, _ in below((*shorter, token))}:
                    return True
    return False


def has_a_tie_at_the_breadth(history):
    """Return whether two children are as frequent and only one of them is considered."""
    most = history.parameters.max_breadth
    if history.parameters.mode is not TreeMode.PROB:
        return False
    for below, context, _ in drafts_of(history):
        for end in anchors_of(history, below, context):
            counts = sorted((count for _, count in below(end)), reverse=True)
            if len(counts) > most and counts[most - 1] == counts[most]:
                return True
    return False


def has_room_left(history):
    most = history.parameters.num_draft_tokens - 1
    return any(0 < len(created) < most for _, _, created in drafts_of(history))


def is_full(history):
    return any(len(created) == history.parameters.num_draft_tokens - 1 > 2 for _, _, created in drafts_of(history))


def pads_beside_a_child_0(history):
    most = history.parameters.num_draft_tokens - 1
    return any((0,) in created and len(created) < most for _, _, created in drafts_of(history))


def knows_nothing(history):
    return any(not created for _, _, created in drafts_of(history))


def breadths_do_not_divide(history):
    sizes = history.parameters
    return (sizes.max_breadth - sizes.min_breadth) % max(1, sizes.max_depth - 1) != 0


def has_a_text(length_beyond_a_path):
    return lambda history: any(
        len(text) - history.parameters.max_depth == length_beyond_a_path for text, _ in history.turns
    )


def has_a_longer_context(history):
    return any(
        len(context) > history.parameters.max_depth and len(created) > 0 for _, context, created in drafts_of(history)
    )


def asks_again_after_a_change(history):
    seen = {}
    return any(seen.setdefault(context, created) != created for _, context, created in drafts_of(history))


HISTORIES = {
    "no room beside a path": room_beside_a_path(0),
    "room for one node beside a path": room_beside_a_path(1),
    "a path that fits exactly": fits_exactly,
    "the first node is forgotten inside a text": forgets_at(is_inside),
    "a path drives out what it passes": forgets_at(drives_out_its_own),
    "one anchor of two": has_anchors(2),
    "anchors of three lengths": has_anchors(3),
    "two anchors that share a continuation": shares_a_continuation,
    "a tie of counts at the breadth": has_a_tie_at_the_breadth,
    "fewer nodes than asked for": has_room_left,
    "all nodes that were asked for": is_full,
    "padding beside a genuine child 0": pads_beside_a_child_0,
    "a context that is not known": knows_nothing,
    "breadths that do not divide": breadths_do_not_divide,
    "one breadth": lambda history: history.parameters.max_breadth == history.parameters.min_breadth,
    "an empty text": lambda history: any(not text for text, _ in history.turns),
    "a text that is one token longer than a path": has_a_text(1),
    "a text that is one token shorter than a path": has_a_text(-1),
    "a context that is longer than a path": has_a_longer_context,
    "a context that is asked for again and leads elsewhere": asks_again_after_a_change,
}
OF_EACH_MODE = (
    "the first node is forgotten inside a text",
    "anchors of three lengths",
    "two anchors that share a continuation",
    "fewer nodes than asked for",
    "all nodes that were asked for",
    "a context that is asked for again and leads elsewhere",
)
BUDGETS = {
    "all nodes of the draft": lambda case: case.num_corpora > 0 and case.budget == case.num_draft_tokens - 1 > 0,
    "more nodes than the draft has": lambda case: case.num_corpora > 0 and case.budget > case.num_draft_tokens,
    "a rest": lambda case: case.num_corpora > 1 and min(case.budget, case.num_draft_tokens - 1) % case.num_corpora,
    "less than a node each": lambda case: 0 < case.budget < min(case.num_corpora, case.num_draft_tokens),
    "no corpus": lambda case: case.num_corpora == 0 and case.budget > 0,
    "no budget": lambda case: case.num_corpora > 0 and case.budget == 0,
}


@pytest.fixture(scope="module")
def histories():
    """Return single histories."""
    return [*chain.from_iterable(drawn(ngram_histories(), 100))]


@pytest.fixture(scope="module")
def budgets():
    """Return single budgets, as they are shared and as drafts are asked for."""
    of_drafts = [
        SharedBudget(case.parameters.num_draft_tokens, len(case.corpora), case.budget)
        for case in chain.from_iterable(drawn(corpora_cases(), 60))
    ]
    return {"shared": [*chain.from_iterable(drawn(shared_budgets(), 60))], "of a draft": of_drafts}


@pytest.mark.parametrize("what", HISTORIES)
def test_a_history_is_found_with(what, histories):
    assert any(HISTORIES[what](history) for history in histories)


@pytest.mark.parametrize("mode", TreeMode)
@pytest.mark.parametrize("what", OF_EACH_MODE)
def test_a_history_is_found_in_each_mode(what, mode, histories):
    assert any(history.parameters.mode is mode and HISTORIES[what](history) for history in histories)


@pytest.mark.parametrize("where", ["shared", "of a draft"])
@pytest.mark.parametrize("what", BUDGETS)
def test_a_budget_is_found_with(what, where, budgets):
    assert any(BUDGETS[what](budget) for budget in budgets[where])
