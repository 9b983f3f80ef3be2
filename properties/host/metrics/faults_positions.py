"""Faults in what is counted by position where verifies differ in width."""

from specsim.properties.mutants.record import edits_of

_CUT = """
    + num_levels = [max(levels, 0) for levels in num_levels]
    + pairs = zip(num_proposed_drafts, num_levels, strict=False)
    + num_proposed_drafts = [max(drafts, levels) if levels else 0 for drafts, levels in pairs]
    + pairs = zip(num_accepted_drafts, num_levels, strict=False)
    + num_accepted_drafts = [min(max(taken, 0), levels) for taken, levels in pairs]
    + num_requests = len(num_accepted_drafts)"""
"""Cuts drafts, levels and accepted drafts of each request to fit each other, where others are missing too."""

MUTANTS = edits_of(
    f"""
    @@ count_positions
    OWN-3120 Every verify is as wide as the widest of its batch.
      num_requests = len(num_accepted_drafts)
    + num_proposed_drafts = [max(num_proposed_drafts, default=0)] * num_requests
    + num_levels = [max(num_levels, default=0)] * num_requests
    OWN-3122 Every verify is taken to have tried every position.
    - position <= taken => True
    OWN-3123 Positions are one late: the root's is the first.
    - tuple(accepted)
    + (counters.num_proposing + sum(drafts > 0 for drafts in num_proposed_drafts), *accepted)[: len(tried)]
    OWN-3121 A verify that proposed nothing counts as one.
    - sum(drafts > 0 for drafts in num_proposed_drafts) => len(num_proposed_drafts)
    OWN-3124 Positions are one early.
    - tuple(accepted) => (*accepted[1:], 0)[: len(tried)]
    OWN-3126 Positions past those of the first batch are lost.
    - tuple(accepted) => tuple(accepted[: len(counters.accepted) or width])
    - tuple(tried) => tuple(tried[: len(counters.accepted) or width])
    OWN-3127 The bonus token counts as accepted.
    - num_requests = len(num_accepted_drafts)
    + pairs = zip(num_accepted_drafts, num_levels, strict=True)
    + num_accepted_drafts = [min(taken + 1, levels) for taken, levels in pairs]
    + num_requests = len(num_accepted_drafts)
    OWN-3128 What earlier batches accepted is forgotten.
    - counters.accepted, counters.tried => (), counters.tried
    OWN-3129 Proposed drafts are counted by levels.
    - sum(num_proposed_drafts) => sum(num_levels)
    OWN-3125 Levels are those of the next request.
    - num_requests = len(num_accepted_drafts)
    + num_levels = [*num_levels[1:], *num_levels[:1]]{_CUT}
    OWN-3130 Counts that contradict each other are cut to fit.
    - num_requests = len(num_accepted_drafts){_CUT}
    """
)
