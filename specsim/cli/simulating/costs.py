"""Files of costs on the command line: read for a ranking or a budget, and measured."""

from pathlib import Path

from specsim.cli.output import Exit, Failed
from specsim.rejection import SpecRejection
from specsim.tuning.costs import CostFile, IterationTimes, parse_costs


def read(option: str, path: Path) -> CostFile:
    """Return a file of costs.

    Raises
    ------
    Failed
        USAGE: it cannot be read, has a gap, or a time that is none.
    """
    try:
        return parse_costs(path.read_bytes())
    except OSError as error:
        raise Failed(f"{option} {path}: {error.strerror}", Exit.USAGE) from error
    except (SpecRejection, ValueError) as error:
        raise Failed(f"{option} {path}: {error}", Exit.USAGE) from error


def read_file(option: str, path: Path) -> tuple[CostFile, IterationTimes]:
    """Return a file of costs, and its table of whole iterations.

    Raises
    ------
    Failed
        USAGE: what ``read`` refuses, and a file without the table.
    """
    costs = read(option, path)
    if costs.iteration_times is None:
        raise Failed(f"{option} {path}: has no iteration_times, which say what a whole iteration costs", Exit.USAGE)
    return costs, costs.iteration_times
