"""Faults in what ranks agree on before a forward: rows of every rank, and lengths that the host lacks."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ plan_mlp_sync_batch
    OWN-2330 Every rank runs as many rows as the busiest.
    - (is_extend_in_batch and num_ranks > 1) or 2 * total < longest * num_ranks => False
    OWN-2331 Every rank runs its own rows.
    - (is_extend_in_batch and num_ranks > 1) or 2 * total < longest * num_ranks => True
    OWN-2332 Exactly twice the rows are too many.
    - 2 * total < longest * num_ranks => 2 * total <= longest * num_ranks
    OWN-2333 Prompts beside other ranks are padded.
    - is_extend_in_batch and num_ranks > 1 => False
    OWN-2334 Rows are rounded up to groups, not to requests.
    - lcm(width, attn_tp_size, attn_cp_size) => lcm(attn_tp_size, attn_cp_size)
    OWN-2335 Only one of two groups shares the rows.
    - lcm(width, attn_tp_size, attn_cp_size) => lcm(width, attn_tp_size)
    OWN-2336 The buffer is always that of the longest.
    - SyncPlan(PaddingMode.SUM_LEN, rows, total) => SyncPlan(PaddingMode.SUM_LEN, rows, longest * num_ranks)
    OWN-2337 Decodes beside prompts stay decodes.
    - SyncPlan(PaddingMode.MAX_LEN, (longest,) * num_ranks, longest * num_ranks, is_extend_in_batch)
    + SyncPlan(PaddingMode.MAX_LEN, (longest,) * num_ranks, longest * num_ranks)
    OWN-2347 Decodes turn beside anybody's prompts.
    - SyncPlan(PaddingMode.SUM_LEN, rows, total) => SyncPlan(PaddingMode.SUM_LEN, rows, total, is_extend_in_batch)
    @@ get_draft_extend_lens
    OWN-2338 Lengths that the host lacks are waited for.
    - widths = (num_draft_tokens,) * len(seq_lens)
    + seq_lens_cpu = tuple(seq_lens.tolist()) if seq_lens_cpu is None else seq_lens_cpu
    + widths = (num_draft_tokens,) * len(seq_lens)
    OWN-2339 A sum that no one knows is 0.
    - ExtendLens(prefix_lens, library.full_like(prefix_lens, num_draft_tokens), widths, None, None)
    + ExtendLens(prefix_lens, library.full_like(prefix_lens, num_draft_tokens), widths, None, 0)
    OWN-2340 The host's copy has the width of a path.
      prefix_lens[...] = seq_lens
    + widths = (max(num_draft_tokens - 1, 1),) * len(seq_lens)
    OWN-2341 The prefix ends after the verify.
    - prefix_lens[...] = seq_lens => prefix_lens[...] = seq_lens + num_draft_tokens
    - tuple(seq_lens_cpu) => forward_lens
    OWN-2342 Lengths of the device have 64 bits.
    - library.int32 => library.int64
    OWN-2343 The sum is that before the extend.
    - sum(forward_lens) => sum(seq_lens_cpu)
    @@ as_one_token_extend
    OWN-2344 The prefix counts the new token.
    - batch.seq_lens - 1 => batch.seq_lens
    """
)
