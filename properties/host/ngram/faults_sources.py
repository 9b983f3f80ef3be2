"""Faults in corpora, in how sources share the nodes of a draft, and in how their drafts become one."""

from specsim.host.ngram import corpus
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_operations, with_arguments

_REST, _EACH = "num_drafts - num_corpora * each", "min(budget, num_drafts) // num_corpora"
_SHARED = "of_store, of_each = share_draft_nodes(num_draft_tokens, len(corpora), budget)"
_TREE = "tree = DraftTree(num_draft_tokens)"
_PLACE, _PLACE_BELOW = "node = CorpusPlace(self._text, places)", "yield CorpusPlace(self._text, places[::-1])"

_CORPUS = "NgramCorpus"
_SHARE = "share_draft_nodes"
_MERGE = "merge_drafts"
_DRAFT = "draft_with_corpora"

MUTANTS = mutants_of_operations(
    {
        ("OWN-2060", _CORPUS, "What comes first in a corpus is the most recent."): edited(
            "below.values()", "reversed(below.values())", within="CorpusPlace"
        ),
        ("OWN-2061", _CORPUS, "A corpus is followed no deeper than a store."): edited(
            _PLACE,
            f"{_PLACE}\nnode.levels = self._parameters.max_depth - length",
            "reversed(self.places)",
            "reversed(self.places if self.levels else [])",
            _PLACE_BELOW,
            """
                below = CorpusPlace(self._text, places[::-1])
                below.levels = self.levels - 1
                yield below
                """,
            within=corpus,
        ),
        ("OWN-2062", _CORPUS, "The shortest end that a corpus has comes first."): edited("found[::-1]", "found"),
        ("OWN-2063", _CORPUS, "The longest end that a corpus has is followed alone."): edited(
            "found[::-1]", "found[-1:]"
        ),
        ("OWN-2064", _CORPUS, "A corpus matches a token more than a path has."): edited(
            "self._parameters.max_depth", "self._parameters.max_depth + 1"
        ),
        ("OWN-2065", _CORPUS, "Documents of a corpus follow each other without a border."): edited(
            '[*check_tokens(f"documents[{number}]", document), BETWEEN_DOCUMENTS]',
            'check_tokens(f"documents[{number}]", document)',
            "tuple(text)",
            "(*text, BETWEEN_DOCUMENTS)",
        ),
        ("OWN-2066", _CORPUS, "The last document of a corpus is lost."): edited(
            "tuple(text)", "tuple(text[: -len(documents[-1]) - 1] if any(documents[:-1]) else text)"
        ),
        ("OWN-2067", _CORPUS, "A corpus takes a token more than it may have."): edited("max_tokens", "max_tokens + 1"),
        ("OWN-2068", _CORPUS, "An empty corpus is taken."): edited("1", "0", within="NgramCorpus.__init__"),
        ("OWN-2070", _SHARE, "What corpora cannot share evenly is lost."): edited(
            "num_corpora * each", "(min(budget, num_drafts) if num_corpora else 0)"
        ),
        ("OWN-2071", _SHARE, "The share of a corpus is rounded up."): edited(
            _EACH, "-(-min(budget, num_drafts) // num_corpora)", _REST, f"max(0, {_REST})"
        ),
        ("OWN-2072", _SHARE, "A budget is not bounded by the draft."): edited(
            _EACH, "budget // num_corpora", _REST, f"max(0, {_REST})"
        ),
        ("OWN-2073", _SHARE, "The root counts as a node that corpora may draft."): edited(
            _EACH, "min(budget, num_draft_tokens) // num_corpora", _REST, f"max(0, {_REST})"
        ),
        ("OWN-2074", _SHARE, "Each corpus gets the whole budget."): edited(
            _EACH, "min(budget, num_drafts)", _REST, f"max(0, {_REST})"
        ),
        ("OWN-2075", _MERGE, "The paths of the store come last."): edited(_TREE, f"{_TREE}\ndrafts = drafts[::-1]"),
        ("OWN-2076", _MERGE, "The last leaf of a draft is merged first."): edited(
            "draft.leaf_paths()", "draft.leaf_paths()[::-1]"
        ),
        ("OWN-2077", _MERGE, "Drafts are merged node by node."): edited(
            "draft.leaf_paths()",
            "[tuple(draft.tokens[row][1:].tolist()) for row in draft.tree_mask[1 : draft.num_genuine]]",
        ),
        ("OWN-2078", _MERGE, "Padding is merged like a path."): edited(
            "draft.leaf_paths()", "[*draft.leaf_paths(), *[(0,)] * min(draft.num_padding, 1)]"
        ),
        ("OWN-2079", _MERGE, "The last draft is left out."): edited(_TREE, f"{_TREE}\ndrafts = drafts[:-1]"),
        ("OWN-2080", _MERGE, "One path of each draft is merged."): edited(
            "draft.leaf_paths()", "draft.leaf_paths()[:1]"
        ),
        ("OWN-2081", _DRAFT, "Corpora are asked where the store knows nothing."): edited(
            "not of_each", "not of_each or store.draft(tokens, num_draft_tokens).num_genuine > 1"
        ),
        ("OWN-2082", _DRAFT, "A corpus stands for the store where the budget is whole."): edited(
            _SHARED,
            f"""
                {_SHARED}
                if corpora and budget >= num_draft_tokens - 1:
                    store = corpora[0]
                """,
        ),
        ("OWN-2083", _DRAFT, "Corpora are merged from the last to the first."): with_arguments(
            corpora=lambda corpora: corpora[::-1]
        ),
        ("OWN-2084", _DRAFT, "The first corpus gets the budget of all."): with_arguments(
            corpora=lambda corpora: corpora[:1]
        ),
        ("OWN-2085", _DRAFT, "The budget has a node less."): with_arguments(budget=lambda budget: max(0, budget - 1)),
    }
)
