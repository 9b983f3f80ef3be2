"""Faults in what leaves an engine: too much of it, under the wrong name, too early, or gone before it has arrived."""

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.record import edits_of, edits_of_pools

MUTANTS = (
    *edits_of(
        """
        @@ export_text
        OWN-4700 The last token leaves, which was never fed.
        - min(written.target, len(text))
        + len(text) if len(text) == num_tokens else min(written.target, len(text))
        OWN-4702 States leave with their length rounded up to a page.
        - written.states if written.states <= target else 0
        + -(-written.states // memory.page_size) * memory.page_size if written.states <= target else 0
        OWN-4704 Positions after the end leave with the text.
        - tuple(holding.slots[:target]) => tuple(holding.slots[: written.target])
        - min(num_pages, draft // memory.page_size) => written.target // memory.page_size
        OWN-4705 Slots that are allocated ahead leave with the text.
        - holding.slots[:target] => holding.slots
        OWN-4706 The draft's last entry leaves without the token that it read.
        - max(units, books.num_protected) => target
        OWN-4708 States that are further than the text leave with it.
        - written.states if written.states <= target else 0 => min(written.states, target)
        OWN-4709 The last page leaves in part.
        - min(num_pages, draft // memory.page_size) => -(-target // memory.page_size)
        OWN-4723 The last page never leaves.
        - min(num_pages, draft // memory.page_size) => max(min(num_pages, draft // memory.page_size) - 1, 0)
        @@ exportable_pages
        OWN-4710 Pages are counted of all tokens.
        - num_left // page_size => (num_left + 1) // page_size
        OWN-4711 Pages are counted past the end.
        - num_left // page_size => num_written // page_size
        OWN-4712 A page counts when it begins.
        - num_left // page_size => -(-num_left // page_size)
        @@ Exports
        OWN-4703 Pages of a text that went back stay in the list.
        - self._left[name] = slots => self._left[name] = (*before, *slots[len(before) :])
        OWN-4715 A page in the place of another stays out of the list.
        - self._left[name] = slots => self._left[name] = (*before[: len(slots)], *slots[len(before) :])
        OWN-4716 Pages leave again at every step.
        - self.left_of(name) => ()
        OWN-4717 A page is free while it is on its way.
        - not self._on_the_way => True
        OWN-4718 The first page of a transfer is not kept.
        - frozenset(slot // self._page_size for slot in transfer.slots)
        + frozenset(sorted({slot // self._page_size for slot in transfer.slots})[1:])
        OWN-4719 The end of one transfer frees what another one reads.
        - self.keep(late) => late
        OWN-4724 What was given back late is never free.
        - return self.keep(late)
        + self.keep(late)
        + return []
        OWN-4725 A transfer ends twice.
        - raise double_free("transfer", [number]) => return []
        @@ export_text
        OWN-4707 The draft has caught up on every text that leaves.
          books, because = holding.books, "what leaves was written"
        + written = ExportLengths(written.target, written.target, written.states)
        @@ exportable_pages
        OWN-4713 A last token that counts as written is taken.
          reason = Reason.COUNT_OUT_OF_RANGE
        + num_tokens += 1
        OWN-4714 A cached front that is longer than what leaves is taken.
          reason = Reason.COUNT_OUT_OF_RANGE
        + num_protected = 0
        """
    ),
    *edits_of_pools(
        [EAGLE_V1, EAGLE_V2],
        """
        @@ export_text in Pools
        OWN-4701 What leaves is copied before the accepted path has moved.
          has_window = side is Side.TARGET and len(self.swa_kv) > 0
        + if side is Side.TARGET:
        +     layers = [layer.copy() for layer in self.kv[side].layers()]
        +     vars(self)["before"] = {slot: [layer[slot] for layer in layers] for slot in target_slots.tolist()}
        - return contents
        + for place, slot in enumerate(slots):
        +     for entries, entry in zip(contents["target_kv"], vars(self).get("before", {}).get(slot, ())):
        +         entries[place] = entry
        + return contents
        @@ export_text in Pools.export
        OWN-4720 States of another row leave.
        - state[row].copy() => state[row - 1].copy()
        OWN-4721 Entries leave under the position before theirs.
        - np.array(slots, dtype=np.int64) => np.array([*slots[1:], *slots[-1:]], dtype=np.int64)
        OWN-4722 The target's entries leave as the draft's.
        - self.kv[Side.DRAFT].layers()
        + [*self.kv[Side.TARGET].layers()][: len([*self.kv[Side.DRAFT].layers()])]
        """,
    ),
)
