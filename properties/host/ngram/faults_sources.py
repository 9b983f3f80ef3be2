"""Faults in corpora, in how sources share the nodes of a draft, and in how their drafts become one."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ NgramCorpus in CorpusPlace
    OWN-2060 What comes first in a corpus is the most recent.
    - below.values() => reversed(below.values())
    @@ NgramCorpus in specsim.host.ngram.corpus
    OWN-2061 A corpus is followed no deeper than a store.
      node = CorpusPlace(self._text, places)
    + node.levels = self._parameters.max_depth - length
    - reversed(self.places) => reversed(self.places if self.levels else [])
    - yield CorpusPlace(self._text, places[::-1])
    + below = CorpusPlace(self._text, places[::-1])
    + below.levels = self.levels - 1
    + yield below
    @@ NgramCorpus
    OWN-2062 The shortest end that a corpus has comes first.
    - found[::-1] => found
    OWN-2063 The longest end that a corpus has is followed alone.
    - found[::-1] => found[-1:]
    OWN-2064 A corpus matches a token more than a path has.
    - self._parameters.max_depth => self._parameters.max_depth + 1
    OWN-2065 Documents of a corpus follow each other without a border.
    - [*check_tokens(f"documents[{number}]", document), BETWEEN_DOCUMENTS]
    + check_tokens(f"documents[{number}]", document)
    - tuple(text) => (*text, BETWEEN_DOCUMENTS)
    OWN-2066 The last document of a corpus is lost.
    - tuple(text) => tuple(text[: -len(documents[-1]) - 1] if any(documents[:-1]) else text)
    OWN-2067 A corpus takes a token more than it may have.
    - max_tokens => max_tokens + 1
    @@ NgramCorpus in NgramCorpus.__init__
    OWN-2068 An empty corpus is taken.
    - 1 => 0
    @@ share_draft_nodes
    OWN-2070 What corpora cannot share evenly is lost.
    - num_corpora * each => (min(budget, num_drafts) if num_corpora else 0)
    OWN-2071 The share of a corpus is rounded up.
    - min(budget, num_drafts) // num_corpora => -(-min(budget, num_drafts) // num_corpora)
    - num_drafts - num_corpora * each => max(0, num_drafts - num_corpora * each)
    OWN-2072 A budget is not bounded by the draft.
    - min(budget, num_drafts) // num_corpora => budget // num_corpora
    - num_drafts - num_corpora * each => max(0, num_drafts - num_corpora * each)
    OWN-2073 The root counts as a node that corpora may draft.
    - min(budget, num_drafts) // num_corpora => min(budget, num_draft_tokens) // num_corpora
    - num_drafts - num_corpora * each => max(0, num_drafts - num_corpora * each)
    OWN-2074 Each corpus gets the whole budget.
    - min(budget, num_drafts) // num_corpora => min(budget, num_drafts)
    - num_drafts - num_corpora * each => max(0, num_drafts - num_corpora * each)
    @@ merge_drafts
    OWN-2075 The paths of the store come last.
      tree = DraftTree(num_draft_tokens)
    + drafts = drafts[::-1]
    OWN-2076 The last leaf of a draft is merged first.
    - draft.leaf_paths() => draft.leaf_paths()[::-1]
    OWN-2077 Drafts are merged node by node.
    - draft.leaf_paths() => [tuple(draft.tokens[row][1:].tolist()) for row in draft.tree_mask[1 : draft.num_genuine]]
    OWN-2078 Padding is merged like a path.
    - draft.leaf_paths() => [*draft.leaf_paths(), *[(0,)] * min(draft.num_padding, 1)]
    OWN-2079 The last draft is left out.
      tree = DraftTree(num_draft_tokens)
    + drafts = drafts[:-1]
    OWN-2080 One path of each draft is merged.
    - draft.leaf_paths() => draft.leaf_paths()[:1]
    @@ draft_with_corpora
    OWN-2081 Corpora are asked where the store knows nothing.
    - not of_each => not of_each or store.draft(tokens, num_draft_tokens).num_genuine > 1
    OWN-2082 A corpus stands for the store where the budget is whole.
      of_store, of_each = share_draft_nodes(num_draft_tokens, len(corpora), budget)
    + if corpora and budget >= num_draft_tokens - 1:
    +     store = corpora[0]
    OWN-2083 Corpora are merged from the last to the first.
      own = store.draft(tokens, count_nodes(of_store))
    + corpora = corpora[::-1]
    OWN-2084 The first corpus gets the budget of all.
    - len(corpora) => len(corpora[:1])
      own = store.draft(tokens, count_nodes(of_store))
    + corpora = corpora[:1]
    OWN-2085 The budget has a node less.
    - budget => max(0, budget - 1)
    """
)
