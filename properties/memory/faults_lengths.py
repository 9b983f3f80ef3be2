"""Faults in how many positions a request reserves, needs and gives back."""

from specsim.properties.mutants.record import edits_of, mutants_of, with_arguments

MUTANTS = (
    *edits_of(
        """
        @@ next_allocated_length
        K02 The recorded length is not that of whole pages.
        - ceil_to(max(num_allocated, num_committed + reserve), page_size)
        + max(num_allocated, num_committed + reserve)
        K18 One iteration is reserved while another is in flight.
        - num_committed + reserve => num_committed + reserve // 2
        S16 What a deeper draft has allocated is forgotten by a flatter one.
        - num_allocated => 0
        OWN-1114 The reserve is one position short.
        - num_committed + reserve => num_committed + reserve - 1
        OWN-1115 The reserve begins after what is allocated.
        - num_committed + reserve => max(num_allocated, num_committed) + reserve
        OWN-1116 A page more is allocated than is reserved.
        - max(num_allocated, num_committed + reserve) => max(num_allocated, num_committed + reserve) + page_size
        @@ alloc_len_per_decode
        OWN-1110 Beams begin with a page of their own.
        - page_size - 1 + sizes.num_steps => sizes.num_steps
        @@ required_row_width
        OWN-1117 A row has room for a verify after its text alone.
        - longest_text + reserve + page_size - 1 => longest_text + 4 + sizes.num_draft_tokens
        OWN-1118 A row has no room for the rest of a page.
        - longest_text + reserve + page_size - 1 => longest_text + reserve
        OWN-1119 A row is wider than anything needs.
        - longest_text + reserve + page_size - 1 => longest_text + reserve + page_size
        @@ new_tokens_required_next_decode
        OWN-1121 V2 counts the last page as unused.
        - next_allocated_length(one.num_committed, one.num_allocated, sizes, page_size)
        + next_allocated_length(one.num_committed, one.num_allocated // page_size * page_size, sizes, page_size)
        - ceil_to(one.num_allocated, page_size) => one.num_allocated // page_size * page_size
        OWN-1122 V2 needs a page less.
        - sum(missing) => max(sum(missing) - page_size, 0)
        OWN-1123 V1 leaves out that beams begin in a partial page.
        - _beam(sizes, page_size) => ceil_to(sizes.num_steps, page_size)
        OWN-1124 V1 counts nodes and no drafts.
        - max(sizes.topk * _beam(sizes, page_size), nodes) => nodes
        OWN-1125 V1 counts slots and no pages.
        - max(sizes.topk * _beam(sizes, page_size), nodes)
        + max(sizes.topk * sizes.num_steps, sizes.num_draft_tokens)
        OWN-1126 A token each is a slot each.
        - page_size * sum(books.num_committed % page_size == 0 for books in batch) => len(batch)
        @@ owned_length
        OWN-1127 Positions after the end count as text.
        - min(num_committed, num_prompt + finished_length) => num_committed
        OWN-1128 Text counts before it is committed.
        - min(num_committed, num_prompt + finished_length) => num_prompt + finished_length
        OWN-1129 The last position of a text that ended is left out.
        - min(num_committed, num_prompt + finished_length)
        + max(min(num_committed, num_prompt + finished_length) - 1, 0)
        OWN-1130 The prompt is left out of a text that ended.
        - num_prompt + finished_length => finished_length
        @@ plan_release
        OWN-1131 A position is cached without the token after it.
        - has_pair_keys => False
        OWN-1132 The last page is never cached.
        - num_key_units(num_owned, has_pair_keys, num_ahead)
        + max(num_key_units(num_owned, has_pair_keys, num_ahead) - page_size, books.num_protected)
        OWN-1133 The last page is cached although it is not resolved.
        - num_key_units(num_owned, has_pair_keys, num_ahead) => num_owned
        OWN-1134 The page of the last text is freed with the scratch, too.
        - (scratch_start, books.num_allocated) => (num_owned, books.num_allocated)
        OWN-1135 A page of scratch is never freed.
        - min(ceil_to(num_owned, page_size), books.num_allocated) => floor_to(num_owned, page_size) + page_size
        OWN-1136 The scratch is not freed.
        - (scratch_start, books.num_allocated) => (0, 0)
        OWN-1137 Cached slots are freed with the request's own.
        - Release(books.num_protected, num_key, num_owned, (scratch_start, books.num_allocated))
        + Release(0, num_key, num_owned, (scratch_start, books.num_allocated))
        @@ alloc_len_per_decode
        OWN-1111 The nodes of a verify are left out.
        - decode_allocation(sizes.topk, sizes.num_steps, sizes.num_draft_tokens)
        + decode_allocation(sizes.topk, sizes.num_steps, 1)
        - max(sizes.topk * ceil_to(page_size - 1 + sizes.num_steps, page_size), sizes.num_draft_tokens)
        + sizes.topk * ceil_to(page_size - 1 + sizes.num_steps, page_size)
        OWN-1112 Steps alone are counted.
        - page_size == 1 or sizes.topk == 1 => True
        - decode_allocation(sizes.topk, sizes.num_steps, sizes.num_draft_tokens)
        + decode_allocation(1, sizes.num_steps, sizes.num_draft_tokens)
        OWN-1113 Pages are counted as slots.
        - page_size == 1 or sizes.topk == 1 => True
        """
    ),
    *mutants_of(
        "new_tokens_required_next_decode",
        ("OWN-1120", "The first request alone is counted.", with_arguments(batch=lambda batch: batch[:1])),
    ),
)
