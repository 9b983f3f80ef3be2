"""Host time of a call: ``python -m specsim.gpu.bench.host`` prints it for every operation, and for its parts alone.

A call checks, allocates and launches. What it cannot avoid is to allocate its outputs and to start its kernels with
arguments that lie ready; the target is 1.5 times that, or 30 µs, whichever is larger. Only the host is timed: calls are
queued in batches that the device drains in between.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.examples import PRODUCTION, SMALL, Sizes, example
from specsim.gpu.launching.launcher import Launch, prepare_again
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

CALLS_PER_BATCH = 1 if INTERPRETED else 20
"""Calls between two waits for the device: with twelve launches each they do not fill its queue of 1,024."""

BATCHES = 1 if INTERPRETED else 30
MOST_OF_PREPARED = 1.5
MOST_US = 30.0

FAST: Sizes = {
    **{**PRODUCTION, "vocab": 8192, "column": 8192, "draft_vocab": 8192, "request": 16, "row": 33},
    **{"token": 256, "num_tokens": 256, "seq_lens_sum": 16_384},
}
"""As in production, with a vocabulary and a batch for which the device is faster than the host."""


@dataclass(frozen=True)
class HostTime:
    """Microseconds a call on the host: the whole call; its outputs and launches alone; how many launches there are."""

    operation: str
    eager_us: float
    prepared_us: float
    num_launches: int

    @property
    def ratio(self) -> float:
        """How many times what it cannot avoid a call costs."""
        return self.eager_us / self.prepared_us

    @property
    def is_within(self) -> bool:
        """Whether the call meets its target."""
        return self.eager_us <= max(MOST_US, MOST_OF_PREPARED * self.prepared_us)


def host_arguments(name: str) -> dict[str, Any]:
    """Return arguments of an operation on the device."""
    return example(name, SMALL if INTERPRETED else FAST, DEVICE)


def measure_host(name: str, arguments: Mapping[str, Any]) -> HostTime:
    """Time calls of one operation, and in turn with them what they cannot avoid."""
    function = vars(gpu)[name]
    launches: list[Launch] = []
    function(**arguments)
    with launching(launches.append):
        returned = function(**arguments)
    outputs = [output for output in _outputs(returned) if output is not None]
    forms = [(tuple(output.shape), output.dtype, output.device) for output in outputs]
    again = [prepare_again(launch) for launch in launches]

    def prepared() -> None:
        for shape, dtype, device in forms:
            torch.empty(shape, dtype=dtype, device=device)
        for begin in again:
            begin()

    eager_us, prepared_us = _interleaved(lambda: function(**arguments), prepared)
    return HostTime(name, eager_us, prepared_us, len(launches))


def measure_all(names: Sequence[str] = tuple(RECORDS)) -> list[HostTime]:
    """Time every operation."""
    return [measure_host(name, host_arguments(name)) for name in names]


def _outputs(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def _interleaved(*calls: Callable[[], Any]) -> list[float]:
    """Return the median microseconds of each call over batches that take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(BATCHES + 1):
        for call, own in zip(calls, times, strict=True):
            _wait()
            start = perf_counter()
            for _ in range(CALLS_PER_BATCH):
                call()
            own.append((perf_counter() - start) / CALLS_PER_BATCH * 1e6)
    _wait()
    return [sorted(own[1:])[(len(own) - 1) // 2] for own in times]


def _wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def main(arguments: Sequence[str]) -> int:
    """Print the table, or one JSON document; return 1 where an operation misses its target."""
    as_json, names = "--json" in arguments, [name for name in arguments if name != "--json"]
    times = measure_all(names or tuple(RECORDS))
    device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU, interpreted: no figure counts"
    rows = [{**asdict(one), "ratio": one.ratio, "is_within": one.is_within} for one in times]
    if as_json:
        print(json.dumps({"device": device, "host": rows}, indent=1))
    else:
        print(f"{device}\n{'operation':42s} {'launches':>8s} {'call µs':>8s} {'prepared µs':>11s} {'ratio':>6s}")
        for one in times:
            missed = "" if one.is_within else "  MISSED"
            print(
                f"{one.operation:42s} {one.num_launches:8d} {one.eager_us:8.1f} {one.prepared_us:11.1f} "
                f"{one.ratio:6.2f}{missed}"
            )
    return int(not all(one.is_within for one in times))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
