"""The command ``specsim``."""

from typing import Any

import click

import specsim
from specsim.cli.bench import bench
from specsim.cli.check import check
from specsim.cli.env import env
from specsim.cli.mutants import mutants
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, remark
from specsim.cli.replay import replay
from specsim.cli.rules import rules
from specsim.cli.show import show
from specsim.cli.simulate import simulate
from specsim.rejection import SpecRejection


class Commands(click.Group):
    """A group whose commands end with one line on stderr, not with a traceback, when the user's input is at fault."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Failed as failed:
            remark(f"specsim: {failed}")
            finish(failed.code)
        except SpecRejection as rejection:
            remark(f"specsim: {rejection}")
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
