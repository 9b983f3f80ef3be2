"""Faults in the greedy acceptance of ragged chains."""

from specsim.properties.mutants.record import edits_of

DIFFS = """
    @@ verify_chain_greedy
    OWN-4341 Rows are padded with token 0.
    - return VerifyChainGreedyOutputs(output_tokens, num_accepted_drafts)
    + return VerifyChainGreedyOutputs(np.maximum(output_tokens, 0), num_accepted_drafts)
    OWN-4330 Drafts that match after a mismatch are accepted too.
    - while first + count < last and draft_tokens[first + count] == target_predict[first + request + count]:
    -     output_tokens[request, count] = draft_tokens[first + count]
    -     count += 1
    + for draft, choice in zip(draft_tokens[first:last], target_predict[first + request :]):
    +     if draft < 0:
    +         break
    +     if draft == choice:
    +         output_tokens[request, count] = draft
    +         count += 1
    OWN-4331 The first draft is accepted unverified.
    - draft_tokens[first + count] == target_predict[first + request + count]
    + (draft_tokens[first + count] == target_predict[first + request + count]
    +  or (count == 0 and draft_tokens[first + count] >= 0))
    OWN-4332 The last draft is accepted unverified.
    - draft_tokens[first + count] == target_predict[first + request + count]
    + (draft_tokens[first + count] == target_predict[first + request + count]
    +  or (first + count == last - 1 and draft_tokens[first + count] >= 0))
    OWN-4333 A draft is compared with the choice after it.
    - draft_tokens[first + count] == target_predict[first + request + count]
    + (draft_tokens[first + count] == target_predict[first + request + count + 1])
    OWN-4334 The target's choices are counted like drafts.
    - output_tokens[request, count] = target_predict[first + request + count]
    + output_tokens[request, count] = target_predict[first + count]
    - target_predict[first + request + count] => target_predict[first + count]
    OWN-4335 A sentinel is passed over.
    - while first + count < last and draft_tokens[first + count] == target_predict[first + request + count]:
    -     output_tokens[request, count] = draft_tokens[first + count]
    -     count += 1
    + for draft, choice in zip(draft_tokens[first:last], target_predict[first + request :]):
    +     if 0 <= draft != choice:
    +         break
    +     if draft == choice:
    +         output_tokens[request, count] = draft
    +         count += 1
    OWN-4336 Chains start at multiples of the average length.
    - first, last = int(cu_num_drafts[request]), int(cu_num_drafts[request + 1])
    + first = request * (len(draft_tokens) // (len(cu_num_drafts) - 1))
    + last = min(first + int(np.diff(cu_num_drafts)[request]), len(draft_tokens))
    OWN-4337 The bonus token comes from the last row.
    - output_tokens[request, count] = target_predict[first + request + count]
    + output_tokens[request, count] = target_predict[last + request]
    OWN-4338 The bonus token comes from the first row.
    - output_tokens[request, count] = target_predict[first + request + count]
    + output_tokens[request, count] = target_predict[first + request]
    OWN-4340 Rejected drafts stay in the output.
      num_accepted_drafts[request] = count
    + output_tokens[request, count + 1 : last - first] = draft_tokens[first + count + 1 : last]
    OWN-4339 The count of drafts includes the bonus token.
    - num_accepted_drafts[request] = count => num_accepted_drafts[request] = count + 1
"""

MUTANTS = edits_of(DIFFS)
