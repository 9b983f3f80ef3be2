"""What a soak has to come to: conditions of the catalogue of faults, which are required, and why others are not.

A feature that joins the engine moves its tag from ``NOT_YET`` to ``REQUIRED``; nothing else says which are required.
"""

import math

from specsim.simulation.events import Tag

REQUIRED: dict[Tag, str] = {
    Tag.ANY: "an iteration, whatever happens in it",
    Tag.ACCEPTED: "a request accepts a draft",
    Tag.REJECTED: "a request accepts some of a path's drafts, not all",
    Tag.FULL: "a request accepts all drafts of a path",
    Tag.BATCH: "two or more requests in an iteration",
    Tag.RAGGED: "requests of an iteration accept different numbers of drafts",
    Tag.TREE: "drafts are trees: two or more branches",
    Tag.STEPS: "drafts of two or more steps",
    Tag.ROUNDS: "a request in its second or a later iteration",
    Tag.PAGES: "pages of more than one slot",
    Tag.SAMPLED: "a sampled request in an iteration",
    Tag.FILTERED: "a sampled request with top-k, top-p or min-p",
    Tag.CHUNK: "a chunk of a prompt that is not its last",
    Tag.PREFIX: "a request that starts after a cached prefix",
    Tag.RETRACT: "a request is retracted",
    Tag.STOP: "an output ends at a stop or end-of-sequence token, or a stop string",
    Tag.LIMIT: "an output ends at its length or at the end of the context",
    Tag.GRAMMAR: "an output ends with its grammar",
    Tag.DYNAMIC: "an iteration runs with other sizes than the one before",
    Tag.OVERLAP: "a turn is launched before the last result is in",
    Tag.BIG: "drafts of more nodes than one word of a mask holds",
    Tag.ZERO: "a request accepts no draft",
    Tag.SIDE: "a request asks for log-probabilities or hidden states",
    Tag.COMPONENTS: "KV of several components or layers",
    Tag.RECURRENT: "a target with recurrent state",
    Tag.HISTORY: "a request gets a row that another one has used",
    Tag.FINISH: "a request ends",
    Tag.SWA: "slots that a sliding window has passed are freed",
    Tag.PAD: "a verify with rows of padding",
    Tag.IDLE: "an iteration without a request, here or on one rank",
    Tag.RANKS: "two ranks run their forwards together",
}
"""Of the catalogue's legend, what an engine can come to, and what each condition is, in words of a report."""

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

OWN: dict[Tag, str] = {
    Tag.ZOMBIE: "a late result of a request that has ended",
    Tag.LATE: "a late result of a request that still runs",
    Tag.ABORT: "a request is aborted",
    Tag.PENALTY: "a request with penalties in an iteration",
    Tag.BIAS: "a request with a logit bias",
    Tag.MINIMUM: "a request with min_tokens",
    Tag.BAD_WORD: "a request with bad words",
    Tag.PARAMETERS: "the first iteration after an algorithm's own parameters changed",
    Tag.BUCKET: "a verify in another bucket than the one before",
    Tag.IDLE_RANK: "a rank waits while the other one works",
}
"""Conditions beyond the legend, required alike.

What is late, each kind of rule about logits, iterations after a change of an algorithm's own parameters, another
bucket than the one before, and a rank that waits while another one works.
"""

SOMETIMES: dict[Tag, str] = {
    Tag.STOP_IN_FLIGHT: "a stop inside an accepted run while the next step is in flight",
    Tag.ROW_IN_FLIGHT: "a row is used again while a result of its old owner is late",
    Tag.BACK_IN_FLIGHT: "a request that was retracted has a row again when its late result comes",
    Tag.ABORT_IN_FLIGHT: "a request is aborted while its step is in flight",
    Tag.EMPTY_IN_FLIGHT: "the batch empties while a result is late",
    Tag.CHUNK_IN_FLIGHT: "a chunk of a prompt is launched while a step of other requests is in flight",
    Tag.IDLE_IN_FLIGHT: "an idle batch is launched while a step is in flight",
    Tag.EARLY_RESULT: "the next launch waits for a result, though it need not",
    Tag.FINISH_AND_RESIZE: "a request ends in the first step of other sizes",
    Tag.ROW_AT_ONCE: "a request gets a row that the step before has freed",
}
"""What has to happen sometimes: a long run in which one of them never does decides too little."""

OF_SCHEDULERS = (
    *(Tag.ANY, Tag.BATCH, Tag.PAGES, Tag.CHUNK, Tag.PREFIX, Tag.RETRACT, Tag.OVERLAP, Tag.HISTORY),
    *(Tag.FINISH, Tag.SWA, Tag.ZOMBIE, Tag.LATE, Tag.ABORT),
)
"""Those of them that a scheduler has to do with: all that is required of a module that brings nothing else."""

MEANINGS = REQUIRED | OWN | SOMETIMES
"""What each condition is."""

ENDS = {
    "length": "max_new_tokens",
    "context": "the end of the context",
    "eos": "an end-of-sequence token",
    "stop_token": "a stop token",
    "stop_string": "a stop string",
    "grammar": "the end of a grammar",
    "abort": "an abort",
    "retraction": "a retraction",
}
"""Ways to leave a row, after each of which rows have to be used again, and what each is."""

LEAST_HITS, PER_STEPS = 20, 20_000
"""Hits of each required condition, and the steps that come to them; shorter runs come to their share."""

FEWEST_JUDGED = 2_000
"""Steps from which on hits and shares are judged: in shorter runs a few machines decide them."""


def least_hits(num_steps: int) -> int:
    """Return how often each required condition has to be met: in proportion to the steps, rounded down."""
    return min(num_steps, PER_STEPS) * LEAST_HITS // PER_STEPS if num_steps >= FEWEST_JUDGED else 0


def more_steps(hits: int, num_steps: int, wanted: int) -> str:
    """Return in words how many steps more would bring a condition to the hits that are wanted, at the rate seen.

    Half a hit is added, as nothing that was never met is known to be impossible.
    """
    more = math.ceil((wanted - hits) * num_steps / (hits + 0.5))
    unit = 10 ** max(len(str(more)) - 2, 0)
    return f"about {math.ceil(more / unit) * unit:,} steps more should do"
