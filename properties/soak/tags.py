"""What a soak has to come to: conditions of the catalogue of faults, which are required, and why others are not.

A feature that joins the engine moves its tag from ``NOT_YET`` to ``REQUIRED``; nothing else says which are required.
"""

from specsim.simulation.events import Tag

REQUIRED = (
    Tag.ANY,
    Tag.ACCEPTED,
    Tag.REJECTED,
    Tag.FULL,
    Tag.BATCH,
    Tag.RAGGED,
    Tag.TREE,
    Tag.STEPS,
    Tag.ROUNDS,
    Tag.PAGES,
    Tag.SAMPLED,
    Tag.FILTERED,
    Tag.CHUNK,
    Tag.PREFIX,
    Tag.RETRACT,
    Tag.STOP,
    Tag.LIMIT,
    Tag.GRAMMAR,
    Tag.DYNAMIC,
    Tag.OVERLAP,
    Tag.BIG,
    Tag.ZERO,
    Tag.SIDE,
    Tag.COMPONENTS,
    Tag.RECURRENT,
    Tag.HISTORY,
    Tag.FINISH,
    Tag.SWA,
    Tag.PAD,
    Tag.IDLE,
    Tag.RANKS,
)
"""Of the catalogue's legend, what an engine can come to."""

NOT_YET: dict[str, str] = {}
"""Conditions whose feature the engine lacks, and which."""

ELSEWHERE = {
    "replay": "graphs are replayed by a worker alone",
    "vmap": "drawn, but who maps ids does not tell",
    "proc": "drawn beside grammars, but processors do not tell",
    "badtree": "a malformed tree is an input of one operation",
    "coin": "a coin at a boundary is an input of one operation",
    "shape": "degenerate trees are drawn for single operations",
    "nan": "a row without numbers is an input of one operation",
    "cuda": "a kernel has it, whatever the engine does",
}
"""Conditions that histories are not judged by, and why."""

OWN = (
    Tag.ZOMBIE,
    Tag.LATE,
    Tag.ABORT,
    Tag.PENALTY,
    Tag.BIAS,
    Tag.MINIMUM,
    Tag.BAD_WORD,
    Tag.PARAMETERS,
    Tag.BUCKET,
    Tag.IDLE_RANK,
)
"""Conditions beyond the legend, required alike.

What is late, each kind of rule about logits, iterations behind a change of an algorithm's own parameters, another
bucket than the one before, and a rank that waits while another one works.
"""

ENDS = ("length", "context", "eos", "stop_token", "stop_string", "grammar", "abort", "retraction")
"""Ways to leave a row, behind each of which rows have to be used again."""

LEAST_HITS, PER_STEPS = 20, 20_000

FEWEST_JUDGED = 2_000
"""Steps from which on hits and shares are judged: in shorter runs a few machines decide them."""


def least_hits(num_steps: int) -> int:
    """Return how often each required condition has to be met: in proportion to the steps, rounded down."""
    return num_steps * LEAST_HITS // PER_STEPS if num_steps >= FEWEST_JUDGED else 0
