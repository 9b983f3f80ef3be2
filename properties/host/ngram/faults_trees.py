"""Faults in the trees that an n-gram store drafts, and in how they are numbered and filled up."""

from specsim.host.ngram.draft import emit_draft
from specsim.host.ngram.trees import grow_by_breadth, grow_by_probability
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_by_number

_DRAFT = "draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)"
_QUEUED = "queue.append((tree.reach(place, child.token), breadth - narrower, child))"
_MET = "meet(tree.reach(place, child.token), child, -negative)"
_NUMBERED = "waiting.extend((len(tokens), below, child) for below, child in tree.children[node].items())"
_EMITTED = "return NgramDraft(np.array(tokens, dtype=np.int64), tree_mask, num_padding)"

MUTANTS = mutants_by_number(
    "NgramStore",
    {
        ("OWN-2030", "Breadths do not shrink from level to level."): edited(
            "breadth - narrower", "breadth", within=grow_by_breadth
        ),
        ("OWN-2031", "Breadths shrink by the depth of a path, not by that less one."): edited(
            "max(1, count_draft_nodes(parameters.max_depth))", "parameters.max_depth", within=grow_by_breadth
        ),
        ("OWN-2032", "Breadths do not depend on the length of what was matched."): edited(
            "shares - anchor.num_tokens", "shares", within=grow_by_breadth
        ),
        ("OWN-2033", "Breadths are those of a context that is one token longer."): edited(
            "shares - anchor.num_tokens", "shares - anchor.num_tokens - 1", within=grow_by_breadth
        ),
        ("OWN-2034", "Breadths are rounded up."): edited(
            "breadth // shares", "-(-breadth // shares)", within=grow_by_breadth
        ),
        ("OWN-2035", "All anchors are followed level by level together."): edited(
            "anchors",
            "anchors[:1]",
            "[(ROOT, first, anchor.node)]",
            "[(ROOT, first + (anchor.num_tokens - one.num_tokens) * narrower, one.node) for one in anchors]",
            within=grow_by_breadth,
        ),
        ("OWN-2036", "What a shorter context knows after a node that is there is left out."): edited(
            _QUEUED, f"if child.token not in tree.children[place]:\n    {_QUEUED}", within=grow_by_breadth
        ),
        ("OWN-2037", "A tree by breadth ends a node early."): edited(
            "DraftTree(num_nodes)", "DraftTree(num_nodes - 1)", within=grow_by_breadth
        ),
        ("OWN-2038", "Of two that are as likely the one that was met last is taken."): edited(
            "next(met)", "-next(met)", within=grow_by_probability
        ),
        ("OWN-2039", "Of two that are as frequent the larger token goes first."): edited(
            "most_common(node, parameters.max_breadth)",
            "sorted(node.newest_first(), key=lambda child: (-child.count, -child.token))[: parameters.max_breadth]",
            within=grow_by_probability,
        ),
        ("OWN-2040", "The most recent children are considered, not the most frequent."): edited(
            "most_common(node, parameters.max_breadth)",
            "[*islice(node.newest_first(), parameters.max_breadth)]",
            within=grow_by_probability,
        ),
        ("OWN-2041", "The least breadth bounds a tree by probability."): edited(
            "parameters.max_breadth", "parameters.min_breadth", within=grow_by_probability
        ),
        ("OWN-2042", "Shares are taken of all children."): edited(
            "sum(child.count for child in followed)",
            "sum(child.count for child in node.newest_first())",
            within=grow_by_probability,
        ),
        ("OWN-2043", "Counts are compared in the place of probabilities."): edited(
            "-probability * child.count / total", "-probability * child.count", within=grow_by_probability
        ),
        ("OWN-2044", "A probability is that of one step, not of the path."): edited(
            "-probability * child.count / total", "Fraction(-child.count, total)", within=grow_by_probability
        ),
        ("OWN-2045", "The likeliest of all anchors together is taken."): edited(
            "anchors",
            "anchors[:1]",
            "meet(ROOT, anchor.node, Fraction(1))",
            "for one in anchors:\n    meet(ROOT, one.node, Fraction(1))",
            within=grow_by_probability,
        ),
        ("OWN-2046", "What a shorter context knows after a likely node is left out."): edited(
            _MET, f"if child.token not in tree.children[place]:\n    {_MET}", within=grow_by_probability
        ),
        ("OWN-2047", "Nodes are numbered depth first."): edited(
            _NUMBERED,
            "waiting.extendleft([(len(tokens), *below) for below in tree.children[node].items()][::-1])",
            within=emit_draft,
        ),
        ("OWN-2048", "Levels are numbered from their ends."): edited(
            "tree.children[ROOT].items()",
            "reversed(tree.children[ROOT].items())",
            "tree.children[node].items()",
            "reversed(tree.children[node].items())",
            within=emit_draft,
        ),
        ("OWN-2049", "Padding hangs below the last node."): edited(
            "[ROOT] * num_padding", "[len(parents) - 1] * num_padding", within=emit_draft
        ),
        ("OWN-2050", "Padding hangs below padding."): edited(
            "[ROOT] * num_padding", "[ROOT, *range(len(parents), len(tokens))][:num_padding]", within=emit_draft
        ),
        ("OWN-2051", "Padding repeats the root."): edited("PADDING_TOKEN", "root_token", within=emit_draft),
        ("OWN-2052", "A mask row lacks its own node."): edited(
            _EMITTED, f"np.fill_diagonal(tree_mask[1:, 1:], False)\n{_EMITTED}", within=emit_draft
        ),
        ("OWN-2053", "A mask row lacks what is above the parent."): edited(
            "tree_mask[node] |= tree_mask[parent]", "tree_mask[node, parent] = True", within=emit_draft
        ),
        ("OWN-2054", "A draft that knows less is shorter."): edited(
            "num_padding = num_draft_tokens - len(tokens)",
            "num_padding, num_draft_tokens = 0, len(tokens)",
            within=emit_draft,
        ),
        ("OWN-2055", "The root is that of the draft before."): edited(
            f"return {_DRAFT}",
            f"""
            draft = {_DRAFT}
            draft.tokens[0], self.last_root = vars(self).get("last_root", tokens[-1]), tokens[-1]
            return draft
            """,
        ),
        ("OWN-2056", "The number of nodes that comes with a call is not read."): edited(
            f"return {_DRAFT}", f"{_DRAFT}\nreturn draft_after(tokens, self._anchors, self._parameters, None)"
        ),
        ("OWN-2057", "A context with ids out of range is clipped."): edited(
            "tokens", "[min(max(token, 0), 2**31 - 1) for token in tokens]", within="NgramStore.draft"
        ),
    },
)
