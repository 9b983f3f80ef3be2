"""Faults in the drafts of a store: in what is said to the store, and in what is taken from it."""

from dataclasses import replace

from specsim.host.ngram import merge_drafts
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import edits_of_sides, mutants_of_sides, with_facts
from specsim.simulation.ngram import StoringSide

_ONE_VERIFY_LATE = edited(
    "for text in texts:\n    self.store.insert(self._end(text))",
    """
    before, self.before = vars(self).get("before", ()), tuple(texts)
    for text in before:
        self.store.insert(self._end(text))
    """,
    within=StoringSide._insert,
)

MUTANTS = (
    *mutants_of_sides("NgramStore", ["ngram"], (
        ("OWN-2100", "A text is inserted as it was after the verify before.", _ONE_VERIFY_LATE),
        ("OWN-2116", "The counter of a request loses the drafts that were accepted after its end.",
         with_facts(counts_only_output=True)),
    )),
    *edits_of_sides(
        ["ngram"],
        """
        @@ NgramStore in StoringSide._insert
        OWN-2101 A text is inserted from its second token on.
        - self._end(text) => self._end(text)[1:]
        OWN-2102 A text is inserted without its bonus token.
        - self._end(text) => self._end(text)[:-1]
        @@ NgramStore in NgramSide.follow_ragged
        OWN-2103 The last words of a request that ends are not inserted.
        - self._insert(after.texts)
        + is_kept = np.isin(everyone.req_pool_indices, going_on.req_pool_indices)
        + self._insert([text for text, goes_on in zip(after.texts, is_kept, strict=True) if goes_on])
        @@ NgramStore in NgramSide.draft
        OWN-2104 Drafts are inserted that the target has not seen.
          drafts = self._continue([self._end(text) for text in start.texts])
        + for draft in drafts:
        +     self.store.insert(draft.tokens[:2].tolist())
        @@ NgramStore in StoringSide
        OWN-2105 Every request of a batch is drafted for by the text of the first.
        - self._end(text) => self._end(texts[0])
        - self._draft(self.store, self._corpora, text, *sizes)
        + self._draft(self.store, self._corpora, texts[0], *sizes)
        @@ NgramStore in verify_input_of
        OWN-2106 The nodes of a request see what those of its neighbour may.
        - tree_mask.reshape(-1) => np.roll(tree_mask, -1, axis=0).reshape(-1)
        @@ NgramStore in NgramSide
        OWN-2107 A text that is shorter than a path is inserted without its prompt.
          pairs = zip(after.chunks, after.following.tolist(), strict=True)
        + self.ends = vars(self).get("ends", {}) | {row: chunk.end for row, chunk in zip(after.rows, after.chunks)}
        - [self._end(text) for text in start.texts]
        + [self._end(text[self.ends[row] :]) for row, text in zip(start.req_pool_indices.tolist(), start.texts)]
        - self._insert(after.texts)
        + self._insert([text[self.ends[row] :] for row, text in zip(start.req_pool_indices.tolist(), after.texts)])
        @@ NgramStore in StoringSide._end
        OWN-2108 A text is inserted that is longer than a path.
        - -self.parameters.max_depth => -self.parameters.max_depth - 1
        @@ NgramStore in StoringSide._continue
        OWN-2109 The last node of a draft is padding, whatever is known.
        - self._draft(self.store, self._corpora, text, *sizes)
        + merge_drafts([self.store.draft(text, max(sizes[0] - 1, 1))], sizes[0])
        OWN-2114 Texts from outside are not asked.
        - self._draft(self.store, self._corpora, text, *sizes) => self.store.draft(text)
        OWN-2115 Of several texts from outside the last one alone is asked.
        - self._corpora => self._corpora[-1:]
        """,
        merge_drafts=merge_drafts,
    ),
    *mutants_of_sides(
        "NgramStore", ["ngram_v2"], [("OWN-2111", "V2 inserts a text two verifies late.", _ONE_VERIFY_LATE)]
    ),
    *edits_of_sides(
        ["ngram_v2"],
        """
        @@ NgramStore in NgramSide.follow
        OWN-2110 V2 inserts what the host has not seen yet.
        - self._insert(start.texts)
        ...
        - return Followed(_going_on(start, said), tokens=tokens)
        + after = _going_on(start, said)
        + self._insert(after.texts)
        + return Followed(after, tokens=tokens)
        @@ NgramStore in StoringSide._insert
        OWN-2112 V2 inserts the text of the first request of a batch for each.
        - self._end(text) => self._end(texts[0])
        @@ NgramStore in NgramSide.draft
        OWN-2113 V2 drafts for each request what follows the text of its neighbour.
          drafts = self._continue([self._end(text) for text in start.texts])
        + roots = [draft.tokens[:1] for draft in drafts]
        + others = [*drafts[1:], *drafts[:1]]
        + drafts = [replace(one, tokens=np.concatenate([root, one.tokens[1:]])) for root, one in zip(roots, others)]
        """,
        replace=replace,
    ),
)  # fmt: skip
