"""Faults in what an n-gram store remembers, forgets and finds."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ NgramStore
    OWN-2000 A child that is there does not become the most recent one.
    - node.children.pop(token, None) => node.children.get(token)
    OWN-2001 A child is counted where it is created alone.
    - child.count += 1 => child.count = 1
    OWN-2002 A node that was forgotten goes on with its count.
    - self._num_forgotten = 0 => self._num_forgotten, self._ever = 0, {}
      passed.append(node)
    + front = path[: len(passed)]
    + node.count = self._ever[front] = self._ever.get(front, 0) + 1
    OWN-2003 A path that is there keeps its age.
    - reversed(passed) => [node for node in reversed(passed) if node not in self._by_age]
    OWN-2004 A path grows old from its front, so that nodes go before those below them.
    - reversed(passed) => passed
    OWN-2005 The end of a known path alone becomes young.
    - reversed(passed) => [passed[-1], *(node for node in passed[-2::-1] if node not in self._by_age)]
    OWN-2006 The youngest leaf is forgotten.
    - leaf, _ = self._by_age.popitem(last=False)
    + leaf = next(node for node in reversed(self._by_age) if not node.children)
    + del self._by_age[leaf]
    OWN-2007 A node is forgotten that has children.
    - leaf, _ = self._by_age.popitem(last=False)
    + leaf = next((node for node in self._by_age if node.children), next(iter(self._by_age)))
    + del self._by_age[leaf]
    OWN-2008 What was forgotten is still found.
    - del leaf.parent.children[leaf.token] => leaf.parent.children[leaf.token] = leaf.parent.children.pop(leaf.token)
    OWN-2009 What was forgotten is not counted.
    - self._num_forgotten += 1
    OWN-2010 Nodes that one path drives out count as one.
    - self._make_room(len(path))
    + before = self._num_forgotten
    + self._make_room(len(path))
    + self._num_forgotten = min(self._num_forgotten, before + 1)
    OWN-2011 A node too few is forgotten.
    - self._make_room(len(path)) => self._make_room(len(path) - 1)
    OWN-2012 A node more is forgotten than needed.
    - self._make_room(len(path)) => self._make_room(min(len(path) + 1, self._parameters.capacity - 1))
    OWN-2013 Room is made for the nodes that a path adds, not for the path.
    - self._make_room(len(path))
    + self._make_room(sum(self._find(path[: end + 1]) is None for end in range(len(path))))
    OWN-2014 Windows are a token too short.
    - start + self._parameters.max_depth => start + self._parameters.max_depth - 1
    OWN-2015 Windows that a text ends in are left out.
    - range(len(checked)) => range(len(checked) - self._parameters.max_depth + 1)
    OWN-2016 The last token of a text is not inserted.
    - check_tokens("tokens to insert", tokens) => check_tokens("tokens to insert", tokens[:-1])
    OWN-2017 The last token of a text is counted twice.
    - range(len(checked)) => (*range(len(checked)), len(checked) - 1)
    OWN-2018 Tokens are inserted before those after them are looked at.
    - checked = check_tokens("tokens to insert", tokens)
    + checked = tuple(tokens)
    + for token in checked:
    +     self._insert_path(check_tokens("tokens to insert", (token,)))
    +     self._root.children[token].count -= 1
    OWN-2019 The shortest end of a text comes first.
    - self._anchors => lambda context: self._anchors(context)[::-1]
    OWN-2020 The longest end of a text alone is followed.
    - self._anchors => lambda context: self._anchors(context)[:1]
    OWN-2021 The last token of a text alone is followed.
    - self._anchors => lambda context: self._anchors(context)[-1:]
    OWN-2022 A text is matched without its last token.
    - self._anchors => lambda context: self._anchors(context[:-1])
    OWN-2023 The longest ends are a token too short.
    - min(len(context), self._parameters.max_depth) => min(len(context), self._parameters.max_depth - 2)
    OWN-2024 A text is matched from its front.
    - context[len(context) - length :] => context[:length]
    OWN-2025 A text that is asked for again leads where it led before.
    - self._anchors
    + lambda context: vars(self).setdefault("found", {}).setdefault(context, self._anchors(context))
    OWN-2026 Ends are matched that grew from ends of the text before.
    - return [Anchor(length, node) for length, node in found if node is not None and node.children]
    + ends = [Anchor(length, node) for length, node in found if node is not None and node.children]
    + known = vars(self).setdefault("asked", set())
    + ends = [end for end in ends if end.num_tokens == 1 or context[: end.num_tokens - 1] in known]
    + known.update(context[-length:] for length in range(1, len(context) + 1))
    + return ends
    OWN-2027 What a draft matches becomes young.
    - return [Anchor(length, node) for length, node in found if node is not None and node.children]
    + ends = [Anchor(length, node) for length, node in found if node is not None and node.children]
    + for end in ends:
    +     self._use([end.node])
    + return ends
    """
)
