"""The command ``specsim``."""

from typing import Any

import click

import specsim
from specsim.cli.bench import bench
from specsim.cli.check import check
from specsim.cli.device import need_working_directory
from specsim.cli.env import env
from specsim.cli.mutants import mutants
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, remark
from specsim.cli.replay import replay
from specsim.cli.results import results_on_stdout
from specsim.cli.rules import rules
from specsim.cli.show import show
from specsim.cli.simulate import simulate
from specsim.rejection import SpecRejection


class Commands(click.Group):
    """A group whose commands end with one line on stderr, not with a traceback, when the user's input is at fault.

    So they do when a file, a folder or stdout cannot be used.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command line; what it found is told on stderr if stdout does not take it."""
        with results_on_stdout() as results:
            try:
                return super().main(*args, **extra)
            except SystemExit as left:
                results.flush()
                if results.failure is None:
                    raise
                remark(f"specsim: stdout: {results.failure.strerror}" + (results.summary and f"; {results.summary}"))
                raise SystemExit(left.code or (Exit.USAGE.value if results.is_missed else None)) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            need_working_directory()
            return super().invoke(ctx)
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


@click.group(cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(specsim.__version__, prog_name="specsim")
def main() -> None:
    """Executable specification of speculative decoding: check, simulate, replay."""


for command in (check, simulate, rules, replay, show, mutants, bench, env):
    main.add_command(command)
