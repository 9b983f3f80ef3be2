"""Names and numbers on a command line: the nearest names where one is wrong, all of them where a shell completes.

A number has a bound, and says why it is where it is.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from specsim.cli.output import Exit, Failed

# Only newer releases of click can be asked for a type of parameters by its values.
if TYPE_CHECKING:
    TextType = click.ParamType[str]
    NumberType = click.ParamType[int]
else:
    TextType = NumberType = click.ParamType

MOST_COMPLETED = 200
"""Names that a shell is offered at once."""


def meant(name: str, names: Iterable[str], listing: str) -> str:
    """Return the end of a sentence about a wrong name: the names that are spelt nearly like it, or what lists all."""
    # NOTE: imported here, because only mistakes need it.
    import difflib

    near = difflib.get_close_matches(name, [*names], n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"{listing} prints all of them"


class Name(TextType):
    """A name out of a list; one that is not in it is refused with the nearest ones.

    Parameters
    ----------
    kind : str
        What is named.
    names : callable
        Returns the names.
    plural : str
        As ``specsim list`` has it, where that is not the name of the kind with an s.
    """

    def __init__(self, kind: str, names: Callable[[], Iterable[str]], plural: str = "") -> None:
        self.name = kind
        self._names, self._listing = names, f"specsim list {plural or f'{kind}s'}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or end the command with the nearest ones."""
        names = list(self._names())
        if value not in names:
            self.fail(f"{value!r} is no {self.name}; {meant(value, names, self._listing)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin alike."""
        return completed(self._names(), incomplete)


def completed(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin like what a user has typed."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MOST_COMPLETED]


def complete_properties(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the properties that begin alike."""
    from specsim.properties.suite.catalogue import all_properties

    return completed((one.name for one in all_properties()), incomplete)


def complete_cells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the cells of the matrix that begin alike."""
    from specsim.properties.matrix.factors import all_cells

    return completed((cell.name for cell in all_cells()), incomplete)


def complete_mutants(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the mutants that begin alike."""
    from specsim.properties.mutants import all_mutants

    return completed((mutant.id for mutant in all_mutants()), incomplete)


def complete_modules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return modules of the working directory and ours that begin alike; nothing is imported."""
    from pathlib import Path

    import specsim

    engines = sorted(path.parent.name for path in (Path(specsim.__file__).parent / "engines").glob("*/__init__.py"))
    ours = ("specsim.reference", "specsim.gpu", *(f"specsim.engines.{name}" for name in engines))
    own = sorted(path.stem for path in Path().glob("*.py") if path.stem.isidentifier())
    return completed((*own, *ours), incomplete)


class Count(NumberType):
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
