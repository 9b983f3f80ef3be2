"""Faults in what is counted and in what is divided by what."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ interval_rates
    M01 The bonus token counts as accepted and the root as proposed.
    - num_accepted_drafts / num_proposed if num_proposed else 0.0
    + (num_accepted_drafts + num_verifies) / (num_verifies * (num_drafts_per_round + 1))
    M03 Tokens are divided by drafts, so that a rate exceeds 1.
    - num_accepted_drafts / num_proposed if num_proposed else 0.0
    + (num_accepted_drafts + num_verifies) / num_proposed
    OWN-173 An interval without a verify divides by zero.
    - num_verifies == 0 => False
    - num_accepted_drafts / num_proposed if num_proposed else 0.0 => num_accepted_drafts / num_proposed
    OWN-1505 Verifies that propose nothing divide by zero.
    - num_accepted_drafts / num_proposed if num_proposed else 0.0 => num_accepted_drafts / num_proposed
    OWN-174 The length leaves the bonus token out.
    - count_tokens(num_accepted_drafts, num_verifies) => num_accepted_drafts
    OWN-381 Drafts and verifies change places in the length.
    - count_tokens(num_accepted_drafts, num_verifies) / num_verifies
    + count_tokens(num_accepted_drafts, num_verifies) / max(num_accepted_drafts, 1)
    @@ update_spec_metrics
    OWN-175 The interval's tokens lack the bonus: its verifies are not counted.
    - counters.num_verifies + num_requests => counters.num_verifies
    OWN-176 The bonus tokens are counted among the drafts.
    - counters.num_accepted_drafts + num_accepted_drafts
    + counters.num_accepted_drafts + num_accepted_drafts + num_requests
    OWN-380 Drafts and verifies change places.
    - counters.num_accepted_drafts + num_accepted_drafts => counters.num_accepted_drafts + num_requests
    - counters.num_verifies + num_requests => counters.num_verifies + num_accepted_drafts
    @@ drafts_per_round
    M02 A tree proposes as many drafts as it has levels.
    - num_draft_tokens is not None => False
    @@ report_decode_stats
    OWN-179 A report comes one batch late.
    - counters.num_batches < decode_log_interval => counters.num_batches <= decode_log_interval
    M11 A verify generates one token a request.
    - counters.num_accepted_tokens => counters.num_verifies
    OWN-177 A report does not reset the counters.
    - return after, stats
    + kept = {"num_accepted_drafts": counters.num_accepted_drafts, "num_verifies": counters.num_verifies}
    + return replace(after, **kept), stats
    OWN-178 A report forgets the intervals before it.
    - counters.total_accepted_drafts + counters.num_accepted_drafts => counters.num_accepted_drafts
    - counters.total_verifies + counters.num_verifies => counters.num_verifies
    OWN-382 An interval reports the tokens of all intervals.
    - counters.num_accepted_tokens => counters.realtime_tokens
    OWN-383 The totals add the verifies of an interval, and none of its drafts.
    - counters.total_accepted_drafts + counters.num_accepted_drafts => counters.total_accepted_drafts
    @@ count_verify
    OWN-180 The histogram is by tokens, not drafts.
    - len(histogram) <= num_accepted_drafts => len(histogram) <= num_accepted_drafts + 1
    - histogram[num_accepted_drafts] => histogram[num_accepted_drafts + 1]
    OWN-181 More than two drafts count as two.
      histogram = list(counters.histogram)
    + num_accepted_drafts = min(num_accepted_drafts, 2)
    @@ count_batch
    OWN-384 A request counts its neighbour's drafts.
    - zip(counters, num_accepted_drafts, is_zombie, strict=True)
    + zip(counters, [*num_accepted_drafts[1:], *num_accepted_drafts[:1]], is_zombie, strict=True)
    OWN-385 A zombie's verifies go on, not its drafts.
    - before if zombie else count_verify(before, drafts)
    + replace(before, num_verifies=before.num_verifies + 1) if zombie else count_verify(before, drafts)
    OWN-182 A zombie's own counters go on.
    - before if zombie else count_verify(before, drafts) => count_verify(before, drafts)
    OWN-183 The batch leaves zombies out.
    - rows = zip(counters, num_accepted_drafts, is_zombie, strict=True)
    + rows = [*zip(counters, num_accepted_drafts, is_zombie, strict=True)]
    + counters = [before for before, _, zombie in rows if not zombie]
    + num_accepted_drafts = [drafts for _, drafts, zombie in rows if not zombie]
    @@ meta_info
    M07 Proposed drafts are those of one verify more.
    - counters.num_verifies * num_drafts_per_round => (counters.num_verifies + 1) * num_drafts_per_round
    OWN-184 The length ignores prefill and stop.
    - num_completion_tokens / counters.num_verifies => 1 + counters.num_accepted_drafts / counters.num_verifies
    OWN-185 No histogram where nothing was proposed.
    - counters.num_verifies == 0 => counters.num_verifies * num_drafts_per_round == 0
    """
)
