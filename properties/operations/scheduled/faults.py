"""Faults of scheduled verification: who is admitted, which budget is taken, and which graph runs."""

import numpy as np

from specsim.properties.mutants.record import edits_of, mutants_by_operation, with_arguments

DIFFS = """
    @@ schedule_verify_lens
    OWN-4009 Without a least length the root of a request is not verified.
    - max(least + num_admitted[request], least, 1) => least + num_admitted[request]
    OWN-4018 Drafts are admitted request after request.
    - sorted(candidates) => sorted(candidates, key=lambda one: (one[2], one[1]))
    OWN-4019 A draft is cut by the confidence of the next one.
    - confidence[request, draft] => [*confidence[request, 1:], np.float32(1)][draft]
    OWN-4020 Equal survivals go by request first.
    - sorted(candidates) => sorted(candidates, key=lambda one: (one[0], one[2], one[1]))
    OWN-4021 Equal survivals go by the deepest first.
    - sorted(candidates) => sorted(candidates, key=lambda one: (one[0], -one[1], one[2]))
    OWN-4022 Of equal survivals the last request's comes first.
    - sorted(candidates) => sorted(candidates, key=lambda one: (one[0], one[1], -one[2]))
    OWN-4023 Drafts are ranked by their own confidence, not by survival.
    - sorted(candidates) => sorted(candidates, key=lambda one: (-float(confidence[one[2], one[1]]), one[1], one[2]))
    OWN-4024 Survivals are multiplied in float64.
    - np.float32(survival * confidence[request, draft]) => survival * np.float64(confidence[request, draft])
    OWN-4025 The budget pays for roots.
    - axes["verify_token_budget"] => max(axes["verify_token_budget"] - len(confidence), 0)
    OWN-4026 Every request has an equal share of the budget.
    - min(most, longest) => min(most, longest, axes["verify_token_budget"] // len(confidence))
    OWN-4028 A draft of just the least survival is left out.
    - survival >= eps => survival > eps
    OWN-4030 Free rows are the first drafts that are admitted.
    - least + num_admitted[request] => 1 + num_admitted[request]
    OWN-4031 A request is one row longer than the longest.
    - axes["max_verify_len"] => min(axes["max_verify_len"], confidence.shape[1]) + 1
    @@ verify_token_budget
    OWN-4060 The last of the best budgets is taken.
    - yielded > best => yielded >= best
    OWN-4061 Costs are those of the drafts without one row.
    - own_rows + count => own_rows - 1 + count
    OWN-4062 Tokens are the accepted drafts alone.
    - float(num_requests) => 0.0
    OWN-4067 Without measured costs nothing is verified.
    - return len(best_first) => return 0
    OWN-4068 Without measured costs all drafts are verified, those that hardly survive too.
    - return len(best_first) => return len(survivals[:max_budget])
    OWN-4069 A forced share is rounded up.
    - math.floor => math.ceil
    OWN-4070 A forced share is one of the rows.
    - costs.num_drafts => (costs.num_drafts + 1)
    @@ verify_graph_tier
    OWN-4075 A graph is asked for that has more rows than all chains.
    - min(num_requests * max(min_verify_len, 1) + budget, num_requests * num_draft_tokens)
    + num_requests * max(min_verify_len, 1) + budget
    OWN-4076 A batch without a budget verifies roots alone.
    - return -1 => budget = 0
    OWN-4077 Free rows after the root are not counted.
    - max(min_verify_len, 1) => 1
    @@ agree_on_tier
    OWN-4080 A rank without a budget runs the graph of the others.
    - None if min(tiers, default=0) < 0 else max(tiers, default=0) => max([0, *tiers])
    OWN-4081 Ranks agree on the smallest graph.
    - max(tiers, default=0) => min(tiers, default=0)
    @@ align_verify_budget
    OWN-4085 A budget is raised beyond whole chains.
    - min(captured[place], num_requests * num_draft_tokens) => captured[place]
    OWN-4086 A budget is raised to rows, not to drafts.
    - max(budget, rows - num_requests * max(min_verify_len, 1))
    + rows if max(budget, rows - num_requests * max(min_verify_len, 1)) > budget else budget
    OWN-4087 A budget is not raised.
    - max(budget, rows - num_requests * max(min_verify_len, 1)) => budget
"""

_no_bound = with_arguments(survival_eps=np.zeros(1, dtype=np.float32))

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    schedule_verify_lens=(
        ("OWN-4027", "Drafts that hardly survive are admitted.", _no_bound),
        ("OWN-4029", "Drafts that do not exist are admitted.", with_arguments(num_drafts=None)),
    ),
    verify_token_budget=(
        ("OWN-4063", "Survivals are taken as they come.", with_arguments(survivals=lambda survivals: survivals[:1])),
        ("OWN-4064", "Drafts that hardly survive count.", with_arguments(survival_eps=0.0)),
        ("OWN-4065", "Rows that are no drafts are the roots alone.", with_arguments(num_rows=None)),
        ("OWN-4066", "The room of the forward is not looked at.", with_arguments(max_budget=None)),
    ),
)
