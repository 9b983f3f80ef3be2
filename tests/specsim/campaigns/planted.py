"""An engine with two faults, written as a module of a user: one of an operation, one that whole runs alone meet."""

PLANTED = """
from specsim.properties.mutants import all_mutants
from specsim.reference import *
from specsim.reference import fill_bonus_tokens as right

SCHEDULER = next(one.scheduler for one in all_mutants() if one.id == "OWN-1193")


def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    tokens = right(accept_tokens, num_accepted_tokens).copy()
    tokens[1:] += 1
    return tokens
"""


def plant(folder, name):
    """Write the module, and return its name."""
    (folder / f"{name}.py").write_text(PLANTED)
    return name
