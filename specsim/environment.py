"""The variables of the environment that are read here."""

import os

INTERPRETER = "TRITON_INTERPRET"
"""Triton's own: kernels are interpreted on the CPU."""

DEBUG = "SPECSIM_DEBUG"
"""Host functions of ``specsim.gpu`` check the entries of their arguments."""

DOCS = "SPECSIM_DOCS"
"""Where the links of a page of ``--report`` lead: the address or the path of the folder ``docs``."""

YES = ("1", "on", "true", "y", "yes")
"""What counts as yes, in any case, for Triton and here."""


def says_yes(name: str) -> bool:
    """Return whether a variable is set to yes."""
    return os.environ.get(name, "").lower() in YES
