"""Faults in the drafts of a store: in what is said to the store, and in what is taken from it."""

from dataclasses import replace

from specsim.host.ngram import merge_drafts
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_sides, with_facts
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

_OUTPUT_ALONE = edited(
    "pairs = zip(after.chunks, after.following.tolist(), strict=True)",
    """
    pairs = zip(after.chunks, after.following.tolist(), strict=True)
    self.ends = vars(self).get("ends", {}) | {row: chunk.end for row, chunk in zip(after.rows, after.chunks)}
    """,
    "[self._end(text) for text in start.texts]",
    "[self._end(text[self.ends[row] :]) for row, text in zip(start.req_pool_indices.tolist(), start.texts)]",
    "self._insert(after.texts)",
    "self._insert([text[self.ends[row] :] for row, text in zip(start.req_pool_indices.tolist(), after.texts)])",
    within="NgramSide",
)

_ENDED_ONES_ARE_LOST = edited(
    "self._insert(after.texts)",
    """
    is_kept = np.isin(everyone.req_pool_indices, going_on.req_pool_indices)
    self._insert([text for text, goes_on in zip(after.texts, is_kept, strict=True) if goes_on])
    """,
    within="NgramSide.follow_ragged",
)

_DRAFTS = "drafts = self._continue([self._end(text) for text in start.texts])"

_REJECTED_DRAFTS_ARE_SAID = edited(
    _DRAFTS,
    f"""
    {_DRAFTS}
    for draft in drafts:
        self.store.insert(draft.tokens[:2].tolist())
    """,
    within="NgramSide.draft",
)

_DRAFT_OF_THE_NEIGHBOUR = edited(
    _DRAFTS,
    f"""
    {_DRAFTS}
    roots = [draft.tokens[:1] for draft in drafts]
    others = [*drafts[1:], *drafts[:1]]
    drafts = [replace(one, tokens=np.concatenate([root, one.tokens[1:]])) for root, one in zip(roots, others)]
    """,
    within="NgramSide.draft",
    replace=replace,
)

_SAID_AT_ONCE = edited(
    "self._insert(start.texts)",
    "",
    "return Followed(_going_on(start, said), tokens=tokens)",
    """
    after = _going_on(start, said)
    self._insert(after.texts)
    return Followed(after, tokens=tokens)
    """,
    within="NgramSide.follow",
)

_INSERTED, _CONTINUED = "self._end(text)", "self._draft(self.store, self._corpora, text, *sizes)"

_FAULTS = (
    ("OWN-2100", "A text is inserted as it was after the verify before.", _ONE_VERIFY_LATE),
    ("OWN-2101", "A text is inserted from its second token on.",
     edited(_INSERTED, "self._end(text)[1:]", within=StoringSide._insert)),
    ("OWN-2102", "A text is inserted without its bonus token.",
     edited(_INSERTED, "self._end(text)[:-1]", within=StoringSide._insert)),
    ("OWN-2103", "The last words of a request that ends are not inserted.", _ENDED_ONES_ARE_LOST),
    ("OWN-2104", "Drafts are inserted that the target has not seen.", _REJECTED_DRAFTS_ARE_SAID),
    ("OWN-2105", "Every request of a batch is drafted for by the text of the first.",
     edited(_INSERTED, "self._end(texts[0])", _CONTINUED, "self._draft(self.store, self._corpora, texts[0], *sizes)",
            within=StoringSide)),
    ("OWN-2106", "The nodes of a request see what those of its neighbour may.",
     edited("tree_mask.reshape(-1)", "np.roll(tree_mask, -1, axis=0).reshape(-1)", within="verify_input_of")),
    ("OWN-2107", "A text that is shorter than a path is inserted without its prompt.", _OUTPUT_ALONE),
    ("OWN-2108", "A text is inserted that is longer than a path.",
     edited("-self.parameters.max_depth", "-self.parameters.max_depth - 1", within=StoringSide._end)),
    ("OWN-2109", "The last node of a draft is padding, whatever is known.",
     edited(_CONTINUED, "merge_drafts([self.store.draft(text, max(sizes[0] - 1, 1))], sizes[0])",
            within=StoringSide._continue, merge_drafts=merge_drafts)),
    ("OWN-2114", "Texts from outside are not asked.",
     edited(_CONTINUED, "self.store.draft(text)", within=StoringSide._continue)),
    ("OWN-2116", "The counter of a request loses the drafts that were accepted after its end.",
     with_facts(counts_only_output=True)),
    ("OWN-2115", "Of several texts from outside the last one alone is asked.",
     edited("self._corpora", "self._corpora[-1:]", within=StoringSide._continue)),
)  # fmt: skip

_FAULTS_OF_V2 = (
    ("OWN-2110", "V2 inserts what the host has not seen yet.", _SAID_AT_ONCE),
    ("OWN-2111", "V2 inserts a text two verifies late.", _ONE_VERIFY_LATE),
    ("OWN-2112", "V2 inserts the text of the first request of a batch for each.",
     edited(_INSERTED, "self._end(texts[0])", within=StoringSide._insert)),
    ("OWN-2113", "V2 drafts for each request what follows the text of its neighbour.", _DRAFT_OF_THE_NEIGHBOUR),
)  # fmt: skip

MUTANTS = (
    *mutants_of_sides("NgramStore", ["ngram"], _FAULTS),
    *mutants_of_sides("NgramStore", ["ngram_v2"], _FAULTS_OF_V2),
)
