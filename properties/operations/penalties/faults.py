"""Faults in penalties."""

from specsim.properties.mutants.record import edits_of

DIFFS = """
    @@ apply_penalties
    OWN-471 Penalties do not know the path of a node.
    - axes["exact"] => False
    OWN-472 Relaxed penalties know the path of a node.
    - axes["exact"] => True
    OWN-478 The tokens of the path replace those that were output.
    - token_counts[request].copy() => np.zeros_like(token_counts[request])
    OWN-483 Every request has the frequency penalty of the first.
    - frequency_penalty[request] => frequency_penalty[0]
    OWN-484 A request has the counts of its neighbour.
    - token_counts[request] => token_counts[request - 1]
    OWN-473 A token of the path counts once, not as often as it occurs.
    - counts[draft_token[request * num_nodes + draft]] += 1
    + token = draft_token[request * num_nodes + draft]
    + counts[token] = token_counts[request, token] + 1
    OWN-474 The root counts as output and as a node of the path.
    - range(1, num_nodes) => range(num_nodes)
    - axes["exact"] and masks[request, node, draft]
    + axes["exact"] and masks[request, node, draft] or (axes['exact'] and draft == 0)
    OWN-475 All nodes of the tree count for each node.
    - axes["exact"] and masks[request, node, draft] => axes["exact"]
    OWN-476 A node's own token does not count for it.
    - axes["exact"] and masks[request, node, draft] => axes["exact"] and masks[request, node, draft] and draft != node
    OWN-477 Of a path only the last two nodes count.
    - axes["exact"] and masks[request, node, draft]
    + axes["exact"] and masks[request, node, draft] and not masks[request, node, draft + 1 : node].any()
    OWN-479 Logits are scaled before they are lessened.
    - values = values - frequency_penalty[request] * counts.astype(np.float32)
    - values = np.where(counts > 0, values - presence_penalty[request], values)
    - scale = repetition_penalty[request]
    - scaled = np.where(values > 0, values / scale, values * scale)
    - penalised_logits[row] = np.where(counts > 0, scaled, values)
    + scale = repetition_penalty[request]
    + scaled = np.where(values > 0, values / scale, values * scale)
    + values = np.where(counts > 0, scaled, values)
    + values = values - frequency_penalty[request] * counts.astype(np.float32)
    + values = np.where(counts > 0, values - presence_penalty[request], values)
    + penalised_logits[row] = values
    OWN-480 Logits are scaled between the two differences.
      values = values - frequency_penalty[request] * counts.astype(np.float32)
    - values = np.where(counts > 0, values - presence_penalty[request], values)
    - scale = repetition_penalty[request]
    - scaled = np.where(values > 0, values / scale, values * scale)
    - penalised_logits[row] = np.where(counts > 0, scaled, values)
    + scale = repetition_penalty[request]
    + scaled = np.where(values > 0, values / scale, values * scale)
    + values = np.where(counts > 0, scaled, values)
    + values = np.where(counts > 0, values - presence_penalty[request], values)
    + penalised_logits[row] = values
    OWN-481 Negative logits are divided too.
    - np.where(values > 0, values / scale, values * scale) => values / scale
    OWN-482 Presence is penalised for every occurrence.
    - values = np.where(counts > 0, values - presence_penalty[request], values)
    + values = values - presence_penalty[request] * counts.astype(np.float32)
"""

MUTANTS = edits_of(DIFFS)
