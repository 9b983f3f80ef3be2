"""Faults of ranks that agree on decisions: one that is not sent, and one that a rank edits after it was."""

from specsim.host.ranks import DECISIONS
from specsim.properties.mutants.record import edits_of

_NOT_SENT = "".join(
    f"""
OWN-{number} Ranks do not agree on {decision}.
  values = np.ascontiguousarray(own).astype(np.int64)
+ if what == "{decision}":
+     return own"""
    for number, decision in enumerate(DECISIONS, 5150)
)

MUTANTS = edits_of(
    f"""
@@ broadcast_decision{_NOT_SENT}
OWN-5158 A rank cuts accepted drafts to a simulated length after they were sent.
- said.astype(own.dtype)
+ np.minimum(said, 1 if what == "accepted drafts" and group.rank > 0 else said).astype(own.dtype)
OWN-5159 A rank cuts verify lengths by its own memory after they were sent.
- said.astype(own.dtype)
+ np.minimum(said, 2 if what == "verify lengths" and group.rank > 0 else said).astype(own.dtype)
OWN-5160 All ranks speak at once.
- values if group.rank == first else values * 0 => values
OWN-5161 The last rank decides.
- group.rank == first => group.rank == group.members[-1]
"""
)
