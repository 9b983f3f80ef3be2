"""What happens in a run, as tags: the conditions that faults need to show, counted on request."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum


class Tag(StrEnum):
    """One condition that a run came to."""

    ANY = "any"
    ACCEPTED = "acc"
    REJECTED = "rej"
    FULL = "full"
    BATCH = "bs2"
    RAGGED = "ragged"
    TREE = "topk2"
    STEPS = "k2"
    ROUNDS = "steps2"
    PAGES = "page"
    SAMPLED = "T"
    FILTERED = "filt"
    CHUNK = "chunk"
    PREFIX = "prefix"
    RETRACT = "retract"
    STOP = "stop"
    LIMIT = "limit"
    GRAMMAR = "gram"
    DYNAMIC = "dynk"
    OVERLAP = "over"
    ZERO = "zero"
    BIG = "big"
    COMPONENTS = "multi"
    RECURRENT = "rec"
    HISTORY = "hist"
    SIDE = "side"
    SWA = "swa"
    FINISH = "finish"
    ZOMBIE = "zombie"
    LATE = "late"
    ABORT = "abort"
    PENALTY = "penalty"
    BIAS = "bias"
    MINIMUM = "min_tokens"
    BAD_WORD = "bad_word"
    PARAMETERS = "parameters"
    PAD = "pad"
    BUCKET = "bucket"
    IDLE = "idle"
    RANKS = "dp"
    IDLE_RANK = "idle_rank"
    MIXED = "mixed"
    RESTING = "resting"
    NARROWER = "narrower"
    WIDER = "wider"
    STOP_IN_FLIGHT = "stop_in_flight"
    ROW_IN_FLIGHT = "row_in_flight"
    BACK_IN_FLIGHT = "back_in_flight"
    ABORT_IN_FLIGHT = "abort_in_flight"
    EMPTY_IN_FLIGHT = "empty_in_flight"
    CHUNK_IN_FLIGHT = "chunk_in_flight"
    IDLE_IN_FLIGHT = "idle_in_flight"
    EARLY_RESULT = "early_result"
    FINISH_AND_RESIZE = "finish_and_resize"
    ROW_AT_ONCE = "row_at_once"


Observer = Callable[[Tag], None]
"""Called with every tag when it happens."""


def ignore(tag: Tag) -> None:
    """Do nothing about a tag."""


class Reach:
    """How often each tag happened."""

    def __init__(self) -> None:
        self.counts: Counter[Tag] = Counter()

    def __call__(self, tag: Tag) -> None:
        """Count a tag."""
        self.counts[tag] += 1
