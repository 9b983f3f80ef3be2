"""Faults in what requests take from an engine's memory, leave in it and give back."""

from dataclasses import replace

from specsim.properties.mutants.record import Named, edits_of, given, mutants_of, with_arguments
from specsim.simulation.memory.keys import key_units


def _shared_part_is_freed(named: Named) -> None:
    named["holding"].books = replace(named["holding"].books, num_protected=0)


def _one_more_is_owned(named: Named) -> None:
    most = min(named["holding"].books.num_allocated, len(named["text"]))
    named["num_owned"] = min(named["num_owned"] + 1, most)


def _all_is_owned(named: Named) -> None:
    num_owned = named["holding"].books.num_allocated
    named.update(num_owned=num_owned, text=[*named["text"], *([0] * num_owned)][:num_owned])


def _text_is_left(named: Named) -> None:
    """Insert the text of a retracted request, whose slots go back to the free list."""
    memory, holding = named["memory"], named["holding"]
    if memory.cache is not None and holding.books.num_committed > holding.books.num_protected:
        key = key_units([0] * holding.books.num_committed, memory.has_pair_keys)
        memory.cache.insert(key, holding.slots[: len(key)])


_WITHOUT_CACHE = with_arguments(memory=lambda memory: replace(memory, cache=None))

MUTANTS = (
    *edits_of(
        """
        @@ prepare_for_decode
        K12 The root's position is committed before it is known.
        - return extend_holdings(memory, [one for one, _ in growing], [end for _, end in growing])
        + ranges = extend_holdings(memory, [one for one, _ in growing], [end for _, end in growing])
        + for one in batch:
        +     one.books = one.books.commit(1)
        + return ranges
        OWN-1153 The first of a batch keep what they got when the others are refused.
        - extend_holdings(memory, [one for one, _ in growing], [end for _, end in growing])
        + [given for one, end in growing for given in extend_holdings(memory, [one], [end])]
        @@ prepare_for_decode in extend_holdings
        K01 What is allocated ahead is not written into the books.
        - one.slots.extend(slots)
        - one.books = one.books.allocate(end)
        OWN-1150 The last of a batch is not written into the map.
        - return ranges => return ranges[:-1]
        OWN-1151 Rows are written one position late.
        - SlotRange(one.books.row, start, end, tuple(slots))
        + SlotRange(one.books.row, start + 1, end + 1, tuple(slots))
        OWN-1152 All of a batch are pointed at one slot.
        - tuple(slots) => tuple((given[0] * len(slots))[: len(slots)])
        @@ admit_request
        OWN-1154 A hit is not locked.
        - memory.cache.lock(found.node)
        OWN-1157 The row of a hit is not written.
        - SlotRange(row, 0, len(found.slots), found.slots) => SlotRange(row, 0, 0, ())
        @@ admit_request in match_prefix
        OWN-1155 Nothing of a cached prompt is computed again.
        - fill[:-1] => fill
        OWN-1156 A hit is a page short.
        - fill[:-1] => fill[: -1 - memory.page_size]
        @@ allocate_chunk
        OWN-1158 A chunk counts as text one chunk late.
        - holding.books.fill(end) => holding.books.commit(given.start - holding.books.num_committed)
        OWN-1159 A chunk allocates a page ahead.
        - return given
        + if end % memory.page_size == 0 and memory.allocator.num_free >= memory.page_size:
        +     holding.slots.extend(memory.allocator.allocate(memory.page_size))
        +     holding.books = holding.books.allocate(len(holding.slots))
        + return given
        @@ publish_prefix
        OWN-1160 The map keeps slots that were freed.
        - SlotRange(books.row, start, len(key), tuple(found.slots[start:])) => SlotRange(books.row, start, start, ())
        OWN-1161 Duplicates are not freed.
        - memory.free(duplicates)
        OWN-1162 What was published is not locked.
        - cache.lock(found.node)
        OWN-1163 The lock stays where the chunk began.
        - cache.unlock(holding.node)
        OWN-1164 What was published still counts as the request's own.
        - holding.books = books.protect(len(key))
        OWN-1165 Prompts are not left to the cache.
        - key_units(text, memory.has_pair_keys, memory.num_ahead)
        + key_units(text[:start], memory.has_pair_keys, memory.num_ahead)
        @@ release_finished in _give_back
        OWN-1166 A request that ends stays locked.
        - memory.cache.unlock(holding.node)
        OWN-1170 A request that ends keeps its scratch.
        - _free(memory, holding, *plan.scratch)
        @@ release_retracted
        OWN-1173 A retraction is not counted.
        - holding.books.retract() => Books(num_retractions=books.num_retractions, is_retracted=True)
        @@ release_retracted in _give_back
        S01 A retracted request keeps its scratch.
        - _free(memory, holding, *plan.scratch)
        OWN-1171 A retracted request stays locked.
        - memory.cache.unlock(holding.node)
        @@ make_room
        OWN-1177 One request more is retracted than has to be.
        - return Room(num_kept, tuple(retracted))
        + if num_kept > 1:
        +     num_kept -= 1
        +     retract(batch[num_kept])
        +     retracted.append(num_kept)
        + return Room(num_kept, tuple(retracted))
        OWN-1178 One retraction is taken for enough.
        - evict_for(memory, demand(batch[:num_kept])) => num_kept > 1 or evict_for(memory, demand(batch[:num_kept]))
        OWN-1179 The last request goes on without room.
        - Room(0, tuple(retracted), aborted=0) => Room(1, tuple(retracted))
        OWN-1180 The last retracted request is forgotten.
        - Room(num_kept, tuple(retracted)) => Room(num_kept, tuple(retracted[:-1]))
        - Room(0, tuple(retracted), aborted=0) => Room(0, tuple(retracted[:-1]), aborted=0)
        @@ Books
        OWN-1181 A result of a time before the retraction is taken.
        - is_finished or num_retractions != self.num_retractions
        + self.num_committed + num_tokens > self.num_allocated
        OWN-1182 The bonus token is not committed.
        - self.commit(num_tokens) => self.commit(num_tokens - 1)
        OWN-1183 Retractions are counted from the last one.
        - self.num_retractions + 1 => 0
        OWN-1184 A retracted request keeps its lengths.
        - self.leave() => replace(self.leave(), num_committed=self.num_committed, num_allocated=self.num_allocated)
        @@ Ledger
        OWN-1185 Pages are not counted.
        - self._check_pages(holdings)
        OWN-1186 Rows are not counted.
        - self._check_rows(holdings)
        OWN-1187 Lengths are not compared.
        - self._check_lengths(f"request {name}", holding)
        @@ key_units
        OWN-1188 The last positions are keyed before their next tokens are there.
        - len(text) - num_ahead => len(text)
        OWN-1189 A position is keyed by its own token alone.
        - tuple(text[place : place + num_ahead + 1]) => text[place]
        """
    ),
    *mutants_of(
        "release_finished",
        ("S13", "What a request shares is freed with it.", given(_shared_part_is_freed)),
        ("OWN-1167", "A request that ends leaves one position too many.", given(_one_more_is_owned)),
        ("OWN-1168", "A request that ends leaves its scratch to the cache.", given(_all_is_owned)),
        ("OWN-1169", "A request that ends leaves nothing to the cache.", _WITHOUT_CACHE),
    ),
    *mutants_of(
        "release_retracted",
        ("OWN-1172", "What a retracted request shares is freed.", given(_shared_part_is_freed)),
        ("OWN-1174", "A retracted request leaves its text to the cache.", given(_text_is_left)),
    ),
    *mutants_of(
        "make_room",
        ("OWN-1175", "The first of a batch is retracted first.", with_arguments(batch=lambda batch: batch[::-1])),
        ("OWN-1176", "Requests are retracted before the cache is asked.", _WITHOUT_CACHE),
    ),
)
