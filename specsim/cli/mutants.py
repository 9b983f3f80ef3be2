"""``specsim mutants``: which seeded faults the suite catches, and with which property."""

import secrets

import click

from specsim.cli.device import choose_device, need_suite
from specsim.cli.output import EXIT_CODES, Exit, console, finish, plain_table, print_json, progress

SHOWN_PROPERTIES = 3


@click.command(epilog=EXIT_CODES)
@click.option("--seed", type=click.IntRange(0), help="Reproduce a run; drawn afresh when absent.")
@click.option("--examples", default=30, show_default=True, type=click.IntRange(1), help="Examples of each property.")
@click.option("--complete", is_flag=True, help="Show every mutant to every property, also those that need not see it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def mutants(seed: int | None, examples: int, complete: bool, as_json: bool) -> None:
    """Print the kill matrix: each seeded fault with the properties that kill it, and the properties that kill none.

    Without --complete a property that has killed a mutant is spared those that others of its kind have killed.
    """
    choose_device()
    need_suite()
    from specsim.properties.mutants import matrix

    seed = secrets.randbelow(2**32) if seed is None else seed
    if not as_json:
        click.echo(f"seed {seed}")
    with progress("mutants") as on_progress:
        kills = matrix.kill_matrix(seed=seed, max_examples=examples, is_complete=complete, on_progress=on_progress)
    killed = sum(1 for properties in kills.kills.values() if properties)
    if as_json:
        print_json(
            {
                "total": len(kills.kills),
                "killed": killed,
                "seed": seed,
                "mutants": [{"id": name, "killed_by": list(by)} for name, by in kills.kills.items()],
                "survivors": list(kills.survivors),
                "powerless": list(kills.powerless),
            }
        )
    else:
        table = plain_table("mutant", "#killed by", "properties")
        for name, by in kills.kills.items():
            shown = ", ".join(by[:SHOWN_PROPERTIES]) + (" …" if len(by) > SHOWN_PROPERTIES else "")
            table.add_row(name, str(len(by)), shown or "SURVIVES")
        console().print(table)
        for name in kills.powerless:
            click.echo(f"powerless: {name} kills no mutant")
        click.echo(f"{killed} of {len(kills.kills)} mutants killed, seed {seed}")
    finish(Exit.FAILURE if kills.survivors else Exit.CONFORMS)
