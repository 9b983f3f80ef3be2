"""Faults in the trees that an n-gram store drafts, and in how they are numbered and filled up."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ NgramStore in specsim.host.ngram.trees.grow_by_breadth
    OWN-2030 Breadths do not shrink from level to level.
    - breadth - narrower => breadth
    OWN-2031 Breadths shrink by the depth of a path, not by that less one.
    - max(1, count_draft_nodes(parameters.max_depth)) => parameters.max_depth
    OWN-2032 Breadths do not depend on the length of what was matched.
    - shares - anchor.num_tokens => shares
    OWN-2033 Breadths are those of a context that is one token longer.
    - shares - anchor.num_tokens => shares - anchor.num_tokens - 1
    OWN-2034 Breadths are rounded up.
    - breadth // shares => -(-breadth // shares)
    OWN-2035 All anchors are followed level by level together.
    - anchors => anchors[:1]
    - [(ROOT, first, anchor.node)]
    + [(ROOT, first + (anchor.num_tokens - one.num_tokens) * narrower, one.node) for one in anchors]
    OWN-2036 What a shorter context knows after a node that is there is left out.
    - queue.append((tree.reach(place, child.token), breadth - narrower, child))
    + if child.token not in tree.children[place]:
    +     queue.append((tree.reach(place, child.token), breadth - narrower, child))
    OWN-2037 A tree by breadth ends a node early.
    - DraftTree(num_nodes) => DraftTree(num_nodes - 1)
    @@ NgramStore in specsim.host.ngram.trees.grow_by_probability
    OWN-2038 Of two that are as likely the one that was met last is taken.
    - next(met) => -next(met)
    OWN-2039 Of two that are as frequent the larger token goes first.
    - most_common(node, parameters.max_breadth)
    + sorted(node.newest_first(), key=lambda child: (-child.count, -child.token))[: parameters.max_breadth]
    OWN-2040 The most recent children are considered, not the most frequent.
    - most_common(node, parameters.max_breadth) => [*islice(node.newest_first(), parameters.max_breadth)]
    OWN-2041 The least breadth bounds a tree by probability.
    - parameters.max_breadth => parameters.min_breadth
    OWN-2042 Shares are taken of all children.
    - sum(child.count for child in followed) => sum(child.count for child in node.newest_first())
    OWN-2043 Counts are compared in the place of probabilities.
    - -probability * child.count / total => -probability * child.count
    OWN-2044 A probability is that of one step, not of the path.
    - -probability * child.count / total => Fraction(-child.count, total)
    OWN-2045 The likeliest of all anchors together is taken.
    - anchors => anchors[:1]
    - meet(ROOT, anchor.node, Fraction(1))
    + for one in anchors:
    +     meet(ROOT, one.node, Fraction(1))
    OWN-2046 What a shorter context knows after a likely node is left out.
    - meet(tree.reach(place, child.token), child, -negative)
    + if child.token not in tree.children[place]:
    +     meet(tree.reach(place, child.token), child, -negative)
    @@ NgramStore in specsim.host.ngram.draft.emit_draft
    OWN-2047 Nodes are numbered depth first.
    - waiting.extend((len(tokens), below, child) for below, child in tree.children[node].items())
    + waiting.extendleft([(len(tokens), *below) for below in tree.children[node].items()][::-1])
    OWN-2048 Levels are numbered from their ends.
    - tree.children[ROOT].items() => reversed(tree.children[ROOT].items())
    - tree.children[node].items() => reversed(tree.children[node].items())
    OWN-2049 Padding hangs below the last node.
    - [ROOT] * num_padding => [len(parents) - 1] * num_padding
    OWN-2050 Padding hangs below padding.
    - [ROOT] * num_padding => [ROOT, *range(len(parents), len(tokens))][:num_padding]
    OWN-2051 Padding repeats the root.
    - PADDING_TOKEN => root_token
    OWN-2052 A mask row lacks its own node.
    - return NgramDraft(np.array(tokens, dtype=np.int64), tree_mask, num_padding)
    + np.fill_diagonal(tree_mask[1:, 1:], False)
    + return NgramDraft(np.array(tokens, dtype=np.int64), tree_mask, num_padding)
    OWN-2053 A mask row lacks what is above the parent.
    - tree_mask[node] |= tree_mask[parent] => tree_mask[node, parent] = True
    OWN-2054 A draft that knows less is shorter.
    - num_padding = num_draft_tokens - len(tokens) => num_padding, num_draft_tokens = 0, len(tokens)
    @@ NgramStore
    OWN-2055 The root is that of the draft before.
    - return draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)
    + draft = draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)
    + draft.tokens[0], self.last_root = vars(self).get("last_root", tokens[-1]), tokens[-1]
    + return draft
    OWN-2056 The number of nodes that comes with a call is not read.
    - return draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)
    + draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)
    + return draft_after(tokens, self._anchors, self._parameters, None)
    @@ NgramStore in NgramStore.draft
    OWN-2057 A context with ids out of range is clipped.
    - tokens => [min(max(token, 0), 2**31 - 1) for token in tokens]
    """
)
