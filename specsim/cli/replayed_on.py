"""Whom a case is replayed against: whom the user names, and never whom the case names unless the user says so."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import click

from specsim.cli.device import OURS
from specsim.cli.output import Exit, Failed
from specsim.conformance.cases import Case, Replay

REFERENCE = "specsim.reference"

_OPTIONS = (
    click.option(
        "--impl",
        "named",
        metavar="MODULE",
        help=f"Replay against this module.  [default: {OURS}, or {REFERENCE} where that cannot run]",
    ),
    click.option(
        "--implementation-from-case",
        "is_from_case",
        is_flag=True,
        help="Import the module that each case names; only for cases that you trust.",
    ),
)


@dataclass(frozen=True)
class Against:
    """What a user says of whom cases are replayed against: a module, or that each case says it, or nothing."""

    named: str | None = None
    is_from_case: bool = False

    def names_for(self, case: Case) -> tuple[str, ...]:
        """Return the modules that a case may be replayed against, the first that can run it goes before."""
        if self.is_from_case:
            return (case.provenance.implementation,)
        return (OURS, REFERENCE) if self.named is None else (self.named,)

    def judge(self, outcome: Replay, case: Case, name: str) -> Replay:
        """Return what became of a case: nothing is fixed where somebody else is tried whom no one asked for."""
        is_asked_for = self.named is not None or case.provenance.implementation == name
        return Replay.HOLDS_HERE if outcome is Replay.FIXED and not is_asked_for else outcome


def with_implementation(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``against``."""

    @functools.wraps(command)
    def called(*, named: str | None, is_from_case: bool, **others: object) -> None:
        if named is not None and is_from_case:
            raise Failed(f"--impl is {named}, and --implementation-from-case asks for another", Exit.USAGE)
        command(against=Against(named, is_from_case), **others)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), called)
