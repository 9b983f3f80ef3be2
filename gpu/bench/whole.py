"""Decode iterations as rows beside those of operations: as one graph, and in single launches."""

from collections.abc import Callable, Collection, Iterator

from specsim.gpu.bench.decode import ITERATION, measure_iterations
from specsim.gpu.bench.every import Timed, Unmeasured, shape_of
from specsim.gpu.bench.growth import AXES, Growth, sizes_along
from specsim.gpu.bench.iteration import EngineSizes
from specsim.rejection import SpecRejection

KIND = "length about 70"
GROWING = ("batch", "nodes", "topk")
"""The axes that an iteration has here: its model is the hash model, whose vocabulary is its own."""


def iteration_along(axis: str) -> Iterator[Growth]:
    """Yield the growth of an iteration along an axis, if it has that."""
    if axis in GROWING:
        shapes = tuple(shape_of(sizes_along(axis, size), KIND) for size in AXES[axis])
        yield Growth(axis, ITERATION, KIND, AXES[axis], shapes)


def sizes_of(growths: Collection[Growth]) -> list[EngineSizes]:
    """Return the sizes at which iterations are timed for some growths, each once."""
    of_iterations = [one for one in growths if one.operation == ITERATION]
    return list(dict.fromkeys(sizes_along(one.axis, size) for one in of_iterations for size in one.sizes))


def measure_whole(
    all_sizes: Collection[EngineSizes], on_progress: Callable[[str, int, int], None] | None = None
) -> Iterator[Timed | Unmeasured]:
    """Time an iteration at some sizes; it has no floor."""
    for done, sizes in enumerate(all_sizes):
        shape = shape_of(sizes, KIND)
        if on_progress is not None:
            on_progress(f"{ITERATION}, {shape}", done, len(all_sizes))
        try:
            graph, launched = measure_iterations([sizes.batch], sizes.topk, sizes.nodes)
        except (RuntimeError, SpecRejection) as error:
            yield Unmeasured.of(ITERATION, shape, error)
            continue
        times = (graph.median_us, graph.low_us, graph.high_us)
        yield Timed(ITERATION, shape, *times, None, None, None, None, eager_us=launched.median_us)
