"""Why an input lies outside the domain of an operation."""

import math
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """One member a kind of bad input; tests assert the member, never the prose."""

    MISSING_ARGUMENT = "A required argument is absent."
    UNKNOWN_ARGUMENT = "An argument is no parameter of the operation, or is given twice."
    WRONG_DTYPE = "An array has another element type than the contract states."
    WRONG_SHAPE = "An array has another shape than the contract states."
    WRONG_KIND = "An array is of a subclass that computes by rules of its own."
    WRONG_DEVICE = "The arrays of one call do not share a device."
    READ_ONLY = "An argument that is written cannot be written."
    SHARED_MEMORY = "An argument that is written shares memory with another one, or with itself."
    OUTPUT_TOO_LARGE = "The outputs of a call would not fit in memory."
    ARGUMENT_TOO_LARGE = "The arguments of a call would not fit in memory."
    NOT_DIVISIBLE = "A length is not a multiple of the width it is cut into."
    SCALAR_OUT_OF_RANGE = "A size or option lies outside its range."
    TOKEN_OUT_OF_RANGE = "A token id lies outside the vocabulary."
    SLOT_OUT_OF_RANGE = "A slot lies outside the pool."
    NODE_OUT_OF_RANGE = "A node number lies outside the tree of its request."
    CANDIDATE_OUT_OF_RANGE = "A flat candidate id lies outside the candidates of its request."
    ROW_OUT_OF_RANGE = "A request row lies outside the request-to-token map."
    COUNT_OUT_OF_RANGE = "A count or length lies outside its range."
    ROW_TOO_SHORT = "A request row ends before the last position that is used."
    NAN_SCORE = "A score or probability is NaN."
    NEGATIVE_SCORE = "A score or probability is negative."
    PROBABILITY_OUT_OF_RANGE = "A probability or threshold lies outside its range."
    COIN_OUT_OF_RANGE = "A coin lies outside [0, 1)."
    TEMPERATURE_OUT_OF_RANGE = "A temperature is neither 0 nor within its bounds."
    INFINITE_LOGIT = "A logit, penalty, bias or activation is infinite where a finite number is needed."
    EMPTY_DISTRIBUTION = "A row of probabilities or logits leaves no token possible."
    STATE_OUT_OF_RANGE = "A grammar state lies outside the grammar."
    ORPHAN_NODE = "A selected node's parent was not selected."
    CYCLIC_TREE = "Links lead from a node back to itself, so that the tree is not a tree."
    SHARED_NODE = "A node hangs in two places of a tree, or the root in one."
    UNSORTED_CANDIDATES = "Kept candidates do not ascend by flat id, so that a parent may follow its child."
    MALFORMED_MASK = "A mask is not the ancestor closure of any tree."
    MALFORMED_PATH = "An accepted path is not a path: entries descend or follow a sentinel."
    DUPLICATE_ROW = "Two requests of one batch claim one row."
    DUPLICATE_SLOT = "Two pairs of one move write one slot."
    NO_MOVE = "Slots of a KV pool are to be moved, and no one knows how."
    UNMAPPED_SLOT = "A slot has no counterpart in another pool where one is needed, or the dump has one."
    INCONSISTENT_LENGTHS = "Two arguments state different lengths for one thing."
    WRONG_PHASE = "An object of another phase was handed over."
    BAD_CONFIGURATION = "A configuration contradicts itself."
    UNKNOWN_NAME = "A name is not registered."
    RESERVED_NAME = "A name belongs to a built-in algorithm or is an alias of one."
    DUPLICATE_NAME = "A name is registered already."
    OUT_OF_SLOTS = "The pool has fewer free slots than the request needs."
    DOUBLE_FREE = "A slot or row was freed that no one owns."
    OPEN_FREE_GROUP = "Frees are grouped inside a group, or a group ends that was not begun."
    BAD_CASE_FILE = "A case file cannot be read."
    BAD_TEXT = "A text cannot be used as training text or as a source of prompts."


class SpecRejection(ValueError):
    """The input is outside the domain; nothing was written.

    Parameters
    ----------
    reason : Reason
        The kind of fault.
    what : str
        The argument, with the index of the first bad entry where there is one.
    got : object
        What was found there.
    expected : str
        The bound or value that the contract asks for.
    because : str
        Where the bound comes from.
    """

    def __init__(self, reason: Reason, what: str, got: object, expected: str, because: str) -> None:
        self.reason = reason
        self.what = what
        self.got = got
        self.expected = expected
        self.because = because
        super().__init__(f"{reason.name}: {what} is {got}, but should be {expected}, because {because}")


def contradiction(what: str, got: object, expected: str, because: str) -> SpecRejection:
    """Return the rejection of a configuration; ``expected`` says what to change it to."""
    return SpecRejection(Reason.BAD_CONFIGURATION, what, got, expected, because)


def check_length(what: str, got: object, expected: object, because: str = "there is one entry a request") -> None:
    """Raise SpecRejection with INCONSISTENT_LENGTHS unless two arguments state the same length."""
    if got != expected:
        raise SpecRejection(Reason.INCONSISTENT_LENGTHS, what, got, str(expected), because)


def check_range(
    reason: Reason, what: str, got: Any, because: str, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise SpecRejection with a reason unless a number lies between two bounds, both of them included."""
    if not least <= got <= most:
        bounds = f"at most {most}" if least == -math.inf else f"at least {least}"
        raise SpecRejection(reason, what, got, bounds if math.inf in (-least, most) else f"{least} to {most}", because)


def check_multiple(what: str, got: int, width: int, because: str) -> None:
    """Raise SpecRejection with NOT_DIVISIBLE unless a length is a multiple of the width that it is cut into."""
    if got % width:
        raise SpecRejection(Reason.NOT_DIVISIBLE, what, got, f"a multiple of {width}", because)


class WorkerRefusal(SpecRejection):
    """A worker says by name that it does not take a configuration or a request; it is neither right nor wrong.

    Parameters
    ----------
    refusal : SpecRejection
        What the worker raised.
    """

    def __init__(self, refusal: SpecRejection) -> None:
        super().__init__(refusal.reason, refusal.what, refusal.got, refusal.expected, refusal.because)

    @property
    def limit(self) -> str:
        """What the worker takes, without what it was given."""
        return f"{self.what} other than {self.expected}, which the worker refuses, because {self.because}"
