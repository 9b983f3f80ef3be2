"""``specsim campaign``: units of check, soak, matrix and mutants over a Ray cluster, for hours or for some seeds."""

import os
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specsim.cli.campaigning import options
from specsim.cli.device import OURS, need_suite
from specsim.cli.env import versions_with_python
from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.isolation import prepare, with_limits
from specsim.cli.matrix import modes_of, most_seeded_of
from specsim.cli.names import SEED, complete_modules
from specsim.cli.output import (
    EXIT_CODES,
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    announce,
    finish,
    notice,
    print_json,
    progress,
)
from specsim.conformance.isolation.process_limits import cores
from specsim.installation import explain_missing, find_missing

if TYPE_CHECKING:
    from specsim.conformance.isolation.jobs import Limits

VERSIONS = ("numpy", "torch", "triton", "hypothesis")
REPLAYS = 200
"""Tries to shorten a failing history, which its unit spends."""


@click.command(epilog=EXIT_CODES)
@click.argument("implementation", metavar="IMPL", shell_complete=complete_modules)
@click.option("--hours", type=options.HOURS, help="Time limit of the campaign, in hours of all its sessions together.")
@click.option("--seeds", metavar="A..B", help="Run every unit with each of these seeds.")
@click.option("--seed", type=SEED, help="First seed of a campaign with --hours; drawn afresh when absent.")
@click.option(
    "--of",
    "kinds",
    multiple=True,
    type=click.Choice(options.KINDS),
    help="Kind of the units; repeatable.  [default: property, machine, cell]",
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Run only this property, cell or mutant; repeatable."
)
@click.option(
    "--examples", default=40, show_default=True, type=options.EXAMPLES, help="Examples of a property with a seed."
)
@click.option(
    "--address", metavar="HOST:PORT", help="Address of a Ray cluster, or auto.  [default: this machine alone]"
)
@click.option("--jobs", type=options.PLACES, help="Limit on the units that run at once.  [default: one a core]")
@click.option(
    "--gpus",
    type=options.GPUS,
    help=f"GPUs of a unit, or a part of one.  [default: 1 of {OURS} where the cluster has some]",
)
@click.option(
    "--runtime-env",
    "runtime_env",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="JSON file with the runtime environment of IMPL on each node, as Ray documents it.",
)
@click.option(
    "--folder",
    default=Path("specsim-campaign"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the campaign; one that has begun is resumed.",
)
@with_limits
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def campaign(
    implementation: str,
    hours: float | None,
    seeds: str | None,
    seed: int | None,
    kinds: tuple[str, ...],
    names: tuple[str, ...],
    examples: int,
    address: str | None,
    jobs: int | None,
    gpus: float | None,
    runtime_env: Path | None,
    folder: Path,
    limits: "Limits",
    as_json: bool,
) -> None:
    """Try IMPL for hours, on all machines of a Ray cluster.

    Units of check, soak, matrix and mutants run side by side, each in a process that may die. What they come to is
    written to a folder as it comes, failures by cause with the smallest case of each. A unit whose node is lost runs
    again. A campaign that was stopped goes on where it was: the same command resumes it. What finds something new
    gets more time.
    """
    if find_missing("cluster"):
        raise Failed(explain_missing("cluster", "specsim campaign"), Exit.UNAVAILABLE)
    notice("importing the suite …")
    need_suite()
    from specsim.campaigns.address import NoCluster, check_address, environment_for
    from specsim.campaigns.causes import Causes
    from specsim.campaigns.drive import drive
    from specsim.campaigns.ledger import Ledger, campaign_in
    from specsim.campaigns.novelty import Chooser
    from specsim.campaigns.plan import Wanted, arms_of
    from specsim.campaigns.units import Kind
    from specsim.campaigns.workshop import Terms, Unstartable
    from specsim.cli.campaigning.report import Report, Watch
    from specsim.cli.campaigning.workers import start

    chosen = options.seeds_of(seeds, seed, hours, campaign_in(folder))
    hours = options.hours_of(hours, chosen)
    wanted = Wanted(options.kinds_of(kinds, names, implementation), chosen, examples, tuple(dict.fromkeys(names)))
    environment = options.read_runtime_env(runtime_env)
    if environment is None:
        environment = environment_for(implementation, address, str(folder))
    terms = Terms(
        implementation=implementation,
        limits=limits,
        examples=examples,
        replays=REPLAYS,
        most_seeded=most_seeded_of,
        versions=versions_with_python(VERSIONS),
        directory="" if "working_dir" in environment else os.getcwd(),
        start=start,
        prepare=prepare,
    )
    # NOTE: this imports Ray, which takes a second that what is refused above need not wait for.
    from specsim.campaigns.cluster import RayCluster, connected, has_gpus

    most = jobs or cores()
    spoken = options.seeds_in_words(chosen)
    try:
        if address is not None:
            check_address(address)
        with Ledger(folder, options.described(wanted, terms)) as ledger:
            if not as_json:
                announce(f"{implementation}, {spoken}, in {folder}")
            notice("starting a cluster …" if address is None else f"joining {address} …")
            # NOTE: Ray prints what it hears of nodes on stdout, which is for results.
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), connected(address, most, environment):
                cluster = RayCluster(terms, _gpus_of(gpus, implementation, has_gpus()), jobs)
                notice(f"importing {implementation} on every node …")
                described = cluster.describe(Kind.CELL in wanted.kinds)
                wanted = replace(wanted, modes=tuple(modes_of(implementation, described.device)))
                chooser = Chooser(arms_of(wanted, described))
                with progress("campaign") as on_progress:
                    watch = Watch(hours, on_progress)
                    found = drive(chooser, cluster, ledger, Causes(folder, implementation), hours, watch)
                finish_undisturbed()
    except NoCluster as error:
        raise Failed(str(error), Exit.UNAVAILABLE if error.is_absent else Exit.USAGE) from error
    except Unstartable as error:
        raise Failed(error.words, Exit(error.code)) from error
    if described.broken:
        found.undecided["cells"] = described.broken
    report = Report(found, implementation, wanted, folder, spoken)
    if as_json:
        print_json(report.document())
    else:
        report.print()
    finish(EXIT_OF_VERDICT[report.verdict], report.last_line)


def _gpus_of(gpus: float | None, implementation: str, are_there: bool) -> float:
    """Return the GPUs of a unit: one of ours where there are some, and else none that no one asked for."""
    is_ours = implementation == OURS or implementation.startswith(f"{OURS}.")
    return gpus if gpus is not None else float(is_ours and are_there)
