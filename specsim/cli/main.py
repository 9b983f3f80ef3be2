"""The command ``specsim``, whose commands are the modules of this folder that define a command of their own name.

Sources are read and not imported until a command is run, so that ``specsim --help`` answers at once.
"""

import ast
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import specsim
from specsim.cli.interrupts import finish_undisturbed, listening
from specsim.cli.names import meant
from specsim.cli.output import (
    EXIT_CODES,
    Exit,
    Failed,
    end_notice,
    finish,
    need_working_directory,
    remark,
    warnings_in_one_line,
)
from specsim.cli.results import results_on_stdout
from specsim.rejection import SpecRejection

FOLDER = Path(__file__).parent
MARK = "\n@click.command"
COMPLETION = "_SPECSIM_COMPLETE"
"""The variable by which a shell asks what may follow."""

WIDEST_HELP = 100
"""Columns of a help text, however wide the terminal is."""


def command_texts() -> dict[str, str]:
    """Return what each command says of itself, by its name."""
    return {
        path.stem: text for path in sorted(FOLDER.glob("*.py")) for text in _text_of(path.stem, path.read_text("utf-8"))
    }


def import_command(name: str) -> click.Command | None:
    """Import a command; None if there is none of that name."""
    path = FOLDER / f"{name}.py"
    if not name.isidentifier() or not path.is_file() or MARK not in path.read_text("utf-8"):
        return None
    command = vars(importlib.import_module(f"{__package__}.{name}")).get(name)
    return command if isinstance(command, click.Command) else None


def _text_of(name: str, source: str) -> Iterator[str]:
    """Yield the docstring of the function that a module turns into its command, if it does."""
    if MARK not in source:
        return
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            yield ast.get_docstring(statement) or ""


class Commands(click.Group):
    """A group whose commands end with one line on stderr, not with a traceback, when the user's input is at fault.

    So they do when a file, a folder or stdout cannot be used. A command is imported when it is run.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(command_texts())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        return import_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command says of itself, without importing one."""
        texts = command_texts()
        width = formatter.width - 6 - max(map(len, texts))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, click.Command(name, help=text).get_short_help_str(width)) for name, text in texts.items()]
            )

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except KeyboardInterrupt:
            remark("specsim: interrupted")
            raise click.exceptions.Exit(Exit.INTERRUPTED.value) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named, or end with the names that are spelt nearly like it."""
        if args[0].isidentifier() and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}; {meant(args[0], self.list_commands(ctx), 'specsim --help')}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command line; what it found is printed on stderr if stdout does not take it."""
        extra.setdefault("complete_var", COMPLETION)
        if COMPLETION in os.environ:
            # NOTE: a shell asks what may follow, and click answers it in bytes.
            return super().main(*args, **extra)
        with listening(), results_on_stdout() as results, warnings_in_one_line():
            try:
                return super().main(*args, **extra)
            except SystemExit as left:
                finish_undisturbed()
                results.flush()
                if results.failure is None:
                    raise
                remark(f"specsim: stdout: {results.failure.strerror}" + (results.summary and f"; {results.summary}"))
                raise SystemExit(left.code or (Exit.USAGE.value if results.is_missed else None)) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            need_working_directory()
            try:
                return super().invoke(ctx)
            finally:
                end_notice()
        except Failed as failed:
            remark(f"specsim: {failed}")
            finish(failed.code)
        except SpecRejection as rejection:
            remark(f"specsim: {rejection}")
            finish(Exit.USAGE)
        except OSError as error:
            named = [f"{name}: " for name in (error.filename, error.filename2) if name is not None]
            remark(f"specsim: {''.join(named)}{error.strerror or error}")
            finish(Exit.USAGE)
        except UnicodeError as error:
            remark(f"specsim: an argument is no text: {error}")
            finish(Exit.USAGE)
        except KeyboardInterrupt:
            remark("specsim: interrupted")
            finish(Exit.INTERRUPTED)


@click.group(
    cls=Commands,
    epilog=EXIT_CODES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
)
@click.version_option(specsim.__version__, prog_name="specsim")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Executable specification of speculative decoding: check, simulate, replay."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
