"""Help of a command whose options are many: section after section."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class Sections(click.Command):
    """A command with sections of options, by their titles; parameters of no section stand last, under "Others"."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.sections = dict(sections)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section after section."""
        records = {
            str(parameter.name): record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        named = {name for names in self.sections.values() for name in names}
        others = [name for name in records if name not in named]
        for title, names in {**self.sections, "Others": others}.items():
            rows = [records[name] for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
