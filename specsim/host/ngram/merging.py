"""One draft of several sources: how many nodes each of them gets, and how their trees become one."""

from collections.abc import Sequence

from specsim.counts import count_draft_nodes, count_nodes
from specsim.host.ngram.corpus import NgramCorpus
from specsim.host.ngram.draft import NgramDraft, emit_draft
from specsim.host.ngram.parameters import check_draft_size
from specsim.host.ngram.store import NgramStore
from specsim.host.ngram.trees import ROOT, DraftTree
from specsim.rejection import Reason, SpecRejection


def share_draft_nodes(num_draft_tokens: int, num_corpora: int, budget: int) -> tuple[int, int]:
    """Return how many nodes after the root a store drafts, and how many each corpus does.

    Parameters
    ----------
    num_draft_tokens : int
        Nodes of the whole draft, the root included.
    num_corpora : int
        How many corpora share the budget.
    budget : int
        Nodes that the corpora may draft together; what they cannot share evenly is left to the store.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no draft has so many nodes; COUNT_OUT_OF_RANGE: a negative count.

    Notes
    -----
    Source: semantics A.13b.
    """
    num_drafts = count_draft_nodes(check_draft_size(num_draft_tokens))
    for what, got in (("num_corpora", num_corpora), ("budget", budget)):
        if got < 0:
            raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, got, "at least 0", "it is a count")
    each = min(budget, num_drafts) // num_corpora if num_corpora else 0
    return num_drafts - num_corpora * each, each


def merge_drafts(drafts: Sequence[NgramDraft], num_draft_tokens: int) -> NgramDraft:
    """Return one draft that has the paths of several, leaf by leaf and draft by draft; their padding is left out.

    Parameters
    ----------
    drafts : sequence of NgramDraft
        Trees below one root, that of the store first.
    num_draft_tokens : int
        Nodes of the whole, the root included.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no draft has so many nodes; INCONSISTENT_LENGTHS: there is no draft, or they hold more
        nodes than the whole; NODE_OUT_OF_RANGE: their roots are different tokens.

    Notes
    -----
    Source: semantics A.13b.
    """
    most = count_draft_nodes(check_draft_size(num_draft_tokens))
    num_drafts = sum(count_draft_nodes(len(draft.tokens)) for draft in drafts)
    if not drafts or num_drafts > most:
        raise SpecRejection(
            Reason.INCONSISTENT_LENGTHS,
            what="nodes of the drafts to merge",
            got=num_drafts if drafts else "missing",
            expected=f"at most {most} after the root of one or more",
            because="each of them got its share",
        )
    roots = list(dict.fromkeys(int(draft.tokens[ROOT]) for draft in drafts))
    if len(roots) > 1:
        raise SpecRejection(
            Reason.NODE_OUT_OF_RANGE, "roots of the drafts to merge", roots, "one token", "they continue one text"
        )
    tree = DraftTree(num_draft_tokens)
    for draft in drafts:
        for path in draft.leaf_paths():
            place = ROOT
            for token in path:
                place = tree.reach(place, token)
    return emit_draft(tree, roots[0], num_draft_tokens)


def draft_with_corpora(
    store: NgramStore, corpora: Sequence[NgramCorpus], tokens: Sequence[int], num_draft_tokens: int, budget: int
) -> NgramDraft:
    """Continue a text by what a store and some corpora know, each in its share of the nodes.

    Parameters
    ----------
    store : NgramStore
        What was said.
    corpora : sequence of NgramCorpus
        Texts from outside, in the order in which they are merged.
    tokens : sequence of int
        The text up to the token that was output last.
    num_draft_tokens : int
        Nodes of the draft, the root included.
    budget : int
        Nodes after the root that the corpora may draft together.

    Raises
    ------
    SpecRejection
        As for the drafts of a store.

    Notes
    -----
    Source: semantics A.13b.
    """
    of_store, of_each = share_draft_nodes(num_draft_tokens, len(corpora), budget)
    if not of_each:
        return store.draft(tokens, num_draft_tokens)
    own = store.draft(tokens, count_nodes(of_store))
    return merge_drafts([own, *(corpus.draft(tokens, count_nodes(of_each)) for corpus in corpora)], num_draft_tokens)
