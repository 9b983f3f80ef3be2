"""Laws of lengths: what is reserved, needed and given back, each position counted by itself."""

from collections import Counter
from dataclasses import replace
from itertools import product

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, require_same, state
from specsim.properties.memory.strategy_lengths import KeyCase, LengthCase, key_cases, length_cases
from specsim.simulation.memory.reserve import DecodeSizes


def positions_touched(sizes: DecodeSizes, page_size: int, num_committed: int) -> int:
    """Return the positions after the committed ones that drafts of an iteration touch, by placing every beam."""
    if page_size == 1 or sizes.topk == 1:
        return sizes.topk * sizes.num_steps
    last = num_committed % page_size
    pages_of_a_beam = len({(last + step) // page_size for step in range(sizes.num_steps)} | {0})
    return sizes.topk * pages_of_a_beam * page_size - last


def two_iterations_stay_within_the_reserve(backend: Backend, cases: list[LengthCase]) -> None:
    """Whatever an iteration accepts, the next one touches allocated positions before the host knows of it."""
    reserve, allocated = backend.host("alloc_len_per_decode"), backend.host("next_allocated_length")
    for case in cases:
        sizes, size = case.sizes, case.page_size
        one = reserve(sizes, size)
        if not sizes.num_draft_tokens:
            require_same("positions of a step without speculation", one, 1)
            continue
        touched = [positions_touched(sizes, size, length) for length in range(size)]
        widest = max(touched[length] + length for length in range(size)) if size > 1 and sizes.topk > 1 else touched[0]
        expected = max(widest, sizes.num_draft_tokens)
        require_same("positions that an iteration may touch", one, expected)
        for books in case.batch:
            end = allocated(books.num_committed, books.num_allocated, sizes, size)
            least = max(books.num_allocated, books.num_committed + 2 * expected)
            require(least <= end < least + size, "allocated length", end, f"{least}, or up to {size - 1} more")
            require(end % size == 0, "allocated length", end, f"whole pages of {size}")
            for start in range(books.num_committed + 1, books.num_committed + sizes.num_steps + 2):
                reached = start + max(positions_touched(sizes, size, start), sizes.num_draft_tokens)
                require(reached <= end, "positions that the next iteration may touch", reached, f"at most {end}")


def a_row_holds_the_longest_text_and_its_reserve(backend: Backend, cases: list[LengthCase]) -> None:
    """No request ever allocates past a row of the required width, and a narrower one is too short for some."""
    allocated = backend.host("next_allocated_length")
    for case in cases:
        sizes, size = case.sizes, case.page_size
        width = backend.host("required_row_width")(case.longest, sizes, size)
        ends = [allocated(length, length, sizes, size) for length in range(case.longest, case.longest + size)]
        largest = max(allocated(length, length, sizes, size) for length in range(case.longest + 1))
        require(largest <= width, "positions of a row", width, f"at least {largest}")
        spare = width - (case.longest + 2 * backend.host("alloc_len_per_decode")(sizes, size))
        require(0 <= spare < size, "positions of a row that no text and no reserve needs", spare, f"0 to {size - 1}")
        require(min(ends) <= width, "positions of a row", width, f"at least {min(ends)}")


def a_decode_takes_no_more_than_was_foretold(backend: Backend, cases: list[LengthCase]) -> None:
    """Free slots that are as many as the demand suffice for what a decode allocates, wherever texts end in a page."""
    for case in cases:
        sizes, size = case.sizes, case.page_size
        need = backend.host("new_tokens_required_next_decode")(case.batch, sizes, size)
        lengths = [books.num_committed for books in case.batch]
        if not sizes.num_draft_tokens:
            taken = sum(_new_pages(length, length + 1, size) for length in lengths)
            require_same("slots for a token each", need, size * taken)
        elif sizes.allocates_ahead:
            ends = [
                backend.host("next_allocated_length")(books.num_committed, books.num_allocated, sizes, size)
                for books in case.batch
            ]
            taken = sum(_new_pages(books.num_allocated, end, size) for books, end in zip(case.batch, ends, strict=True))
            require_same("slots that are allocated ahead", need, size * taken)
        else:
            nodes = sum(_new_pages(length, length + sizes.num_draft_tokens, size) for length in lengths)
            touched = [length + positions_touched(sizes, size, length) for length in lengths]
            drafts = sum(_new_pages(length, end, size) for length, end in zip(lengths, touched, strict=True))
            taken = size * max(nodes, drafts)
            require(taken <= need, "slots for drafts, then for nodes", need, f"at least {taken}")
            beam = sizes.num_steps if size == 1 else -(-sizes.num_steps // size) * size
            spill = size if sizes.topk > 1 and size > 1 else 0
            most = len(lengths) * max(sizes.topk * (beam + spill), -(-sizes.num_draft_tokens // size) * size)
            require(need <= most, "slots for drafts, then for nodes", need, f"at most {most}")


def a_release_names_every_position_once(backend: Backend, cases: list[LengthCase]) -> None:
    """What a request owns is cached or freed, each page once; what the cache had before it stays there."""
    for case in cases:
        size, books = case.page_size, case.batch[0]
        owned = backend.host("owned_length")(books.num_committed, case.num_prompt, case.finished_length)
        cut = None if case.finished_length is None else case.num_prompt + case.finished_length
        expected = books.num_committed if cut is None or cut > books.num_committed else cut
        require_same("positions of text", owned, expected)
        owned = max(owned, books.num_protected)
        plan = backend.host("plan_release")(books, owned, size, case.has_pair_keys)
        units = len(range(1, owned)) if case.has_pair_keys else owned
        key = units - units % size
        require_same("positions that can be cached", plan.num_key, key)
        for num_cached in range(books.num_protected, max(key, books.num_protected) + 1, size):
            pages: Counter[int] = Counter()
            for start, end in (*plan.committed_ranges(num_cached), plan.scratch):
                pages.update({position // size for position in range(start, end)})
            kept = set(range(books.num_protected // size)) | set(range(num_cached // size, key // size))
            owners = Counter(kept) + pages
            every = Counter(range(-(-books.num_allocated // size)))
            require(owners == every, "owners of pages", dict(owners), "the cache or one free each")


def a_unit_names_what_a_position_has_consumed(backend: Backend, cases: list[KeyCase]) -> None:
    """A position is cached under its token and those that the draft has consumed after it, if they are there yet."""
    for text, has_pair_keys, num_ahead in cases:
        ahead = num_ahead if has_pair_keys else 0
        known = [position for position in range(len(text)) if position + ahead in range(len(text))]
        units = backend.host("key_units")(text, has_pair_keys, num_ahead)
        require_same(f"units of {len(text)} tokens", len(units), len(known))
        for position, unit in zip(known, units, strict=True):
            consumed = [text[position + place] for place in range(ahead + 1)]
            require_same(f"unit of position {position}", unit, tuple(consumed) if has_pair_keys else consumed[0])


def a_result_counts_for_the_time_it_was_launched_in(backend: Backend, cases: list[LengthCase]) -> None:
    """A result commits its tokens, unless its request has ended, or was retracted since the launch."""
    for case in cases:
        for num_retractions, lengths in enumerate(case.batch):
            books = replace(
                backend.host("Books")(lengths.row, lengths.num_protected, lengths.num_committed, lengths.num_allocated),
                num_retractions=num_retractions,
            )
            most = min(case.sizes.num_steps + 1, books.num_allocated - books.num_committed)
            for num_tokens, launched, has_ended in product(range(most + 1), range(len(case.batch) + 1), (False, True)):
                resolved = books.resolve(num_tokens, launched, has_ended)
                counts = launched == num_retractions and not has_ended
                expected = books.num_committed + (num_tokens if counts else 0)
                require_same("positions of text", resolved.num_committed, expected)
                require_same("books beside the text", replace(resolved, num_committed=books.num_committed), books)


def _new_pages(start: int, end: int, page_size: int) -> int:
    """Return the pages of the positions from a length on that do not hold a position before it."""
    return len({position // page_size for position in range(start, end)} - {(start - 1) // page_size if start else -1})


_DEMAND = ("new_tokens_required_next_decode", "next_allocated_length")
_WIDTH = ("alloc_len_per_decode", "next_allocated_length", "required_row_width")

PROPERTIES = (
    state("memory_books", two_iterations_stay_within_the_reserve, length_cases, _WIDTH[:2], "P46"),
    state("memory_books", a_row_holds_the_longest_text_and_its_reserve, length_cases, _WIDTH, "P46"),
    state("memory_books", a_decode_takes_no_more_than_was_foretold, length_cases, _DEMAND, "P46"),
    state("memory_books", a_result_counts_for_the_time_it_was_launched_in, length_cases, ("Books",), "P51"),
    state("memory_books", a_unit_names_what_a_position_has_consumed, key_cases, ("key_units",), "P43"),
    state("memory_books", a_release_names_every_position_once, length_cases, ("owned_length", "plan_release"), "P38"),
)
