"""``specsim bench --costs``: a file of what iterations of a model cost on the GPU at hand."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.cli.device import choose_device, load_implementation
from specsim.cli.output import Exit, Failed, finish, plain_table, print_json, print_table, progress, say
from specsim.cli.simulating.options import first_given, with_options
from specsim.environment import INTERPRETER, says_yes
from specsim.tuning.costs import CostFile, content_of

OWN = {"costs", "model", "as_json"}

_OPTIONS = (
    click.option(
        "--costs",
        type=click.Path(path_type=Path, readable=False),
        metavar="FILE",
        help="Write what iterations of --model cost, for specsim tune.",
    ),
    click.option(
        "--model",
        metavar="MODULE:NAME",
        help="Function that returns the model of --costs.  [default: a random Llama of 1 billion parameters]",
    ),
)


def with_costs(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; with the first, costs are measured in its place."""

    @functools.wraps(command)
    def called(*, costs: Path | None, model: str | None, **others: Any) -> None:
        if costs is None:
            if model is not None:
                raise Failed("--model is that of --costs, and there is none", Exit.USAGE)
            command(**others)
            return
        _require_alone()
        if model is not None and not all(model.partition(":")):
            raise Failed(f"--model is {model}, but should be MODULE:NAME, such as my_model:build", Exit.USAGE)
        try:
            costs.open("a").close()
        except OSError as error:
            raise Failed(f"--costs {costs}: {error.strerror}", Exit.USAGE) from error
        device = choose_device()
        if device == "absent" or "CPU" in device or says_yes(INTERPRETER):
            raise Failed(f"costs are measured on a GPU, and the device here is {device}", Exit.UNAVAILABLE)
        _measure(costs, model, others["as_json"])

    return with_options(_OPTIONS, called)


def _require_alone() -> None:
    others = {parameter.name or "" for parameter in click.get_current_context().command.params} - OWN
    given = first_given(others)
    if given is not None:
        raise Failed(f"--costs says what is timed, as {given} does", Exit.USAGE)


def _measure(path: Path, model: str | None, as_json: bool) -> None:
    """Measure, write the file, print how good its sums are, and end the command."""
    built = _built(model)
    from specsim.tuning.measuring import measured_costs

    with progress("costs") as on_progress:
        costs = measured_costs(built, on_progress=on_progress)
    path.write_bytes(content_of(costs))
    if as_json:
        print_json(msgspec.json.decode(content_of(costs)))
    else:
        _print(costs)
    finish(Exit.CONFORMS)


def _print(costs: CostFile) -> None:
    times = costs.iteration_times
    if times is None:
        return
    table = plain_table(
        "forward", "#requests", "#tokens of each", "#length", "#ms", title=f"{costs.model}, {costs.device}"
    )
    for name in ("target", "draft_step", "draft_extend"):
        grid = getattr(times, name)
        for request in (grid.requests[0], grid.requests[-1]):
            for token in (grid.tokens[0], grid.tokens[-1]):
                seconds = grid.at(request, token, grid.lengths[-1])
                table.add_row(name, str(request), str(token), str(grid.lengths[-1]), f"{seconds * 1e3:.3f}")
    print_table(table)
    say(f"whole iterations are off by {costs.error:.1%} at most from the sum of their parts")


def _built(model: str | None) -> Any:
    """Return the model of a user's function, or the default one.

    Raises
    ------
    Failed
        USAGE: there is no such function; UNAVAILABLE: the module does not import.
    """
    if model is None:
        from specsim.gpu.arrays import DEVICE
        from specsim.gpu.bench.llama import DialledLlama

        return DialledLlama(0.7, DEVICE)
    module, _, name = model.partition(":")
    load_implementation(module)
    function = vars(sys.modules[module]).get(name)
    if not callable(function):
        raise Failed(f"--model is {model}, but {module} has no function {name}", Exit.USAGE)
    return function()
