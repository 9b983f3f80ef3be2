"""Numbers of a command line with an upper bound, and why it is where it is."""

from typing import TYPE_CHECKING, Any

import click

from specsim.cli.output import Exit, Failed

# Only newer releases of click can be asked for a type of parameters by its values.
if TYPE_CHECKING:
    ParamType = click.ParamType[int]
else:
    ParamType = click.ParamType


class Count(ParamType):
    """A whole number from ``least`` to ``most``; ``because`` says why not more."""

    name = "integer"

    def __init__(self, least: int, most: int, because: str) -> None:
        self._least, self._most, self._because = least, most, because

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number.

        Raises
        ------
        Failed
            USAGE: it is none, or out of bounds.
        """
        number = click.INT.convert(value, param, ctx)
        if self._least <= number <= self._most:
            return number
        what = param.opts[0] if param is not None else "a number"
        expected = f"{self._least:,} to {self._most:,}"
        raise Failed(f"{what} is {number}, but should be {expected}, because {self._because}", Exit.USAGE)


JOBS = Count(1, 256, "each is a process with the whole suite in its memory")
SEED = Count(0, 2**32 - 1, "a seed is one word")
