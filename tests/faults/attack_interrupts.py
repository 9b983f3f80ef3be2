"""``python -m tests.faults.attack_interrupts`` interrupts every command in each of its phases."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tests.faults.judging import MARK, RAW, ROOT, end_all, processes_left, tally

SECONDS_TO_END = 2.0
SLOWNESS = float(os.environ.get("SPECSIM_SLOWNESS", "1"))
"""How many times as long everything takes on a machine that others use too."""

HANGS = "import time\ndef fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    time.sleep(1000)\n"
IMPORTS = "import time\ntime.sleep(1000)\n"
RIGHT = "from specsim.reference import fill_bonus_tokens\n"
COMMANDS = {
    "check": ("check", "right", "--seed", "1", "--budget", "60"),
    "check of a call that hangs": ("check", "hangs", "--seed", "1", "--call-timeout", "900"),
    "check of an import that hangs": ("check", "imports", "--seed", "1", "--start-timeout", "900"),
    "check in two processes": ("check", "right", "--seed", "1", "--budget", "60", "--jobs", "2", "--json"),
    "soak": ("soak", "--seed", "1", "--steps", "10000000"),
    "soak in two processes": ("soak", "--seed", "1", "--steps", "10000000", "--jobs", "2", "--json"),
    "soak --exhaustive": ("soak", "--exhaustive", "--max-states", "9000000"),
    "soak --exhaustive --mutants": ("soak", "--exhaustive", "--mutants"),
    "matrix": ("matrix", "--seed", "1"),
    "mutants": ("mutants", "--seed", "1"),
    "mutants in two processes": ("mutants", "--seed", "1", "--jobs", "2"),
    "simulate": ("simulate", "--requests", "500", "--max-new-tokens", "500"),
    "replay": ("replay", "case.json", "--impl", "hangs", "--call-timeout", "900"),
    "show": ("show", "build_tree"),
    "rules": ("rules", "--algorithm", "eagle"),
    "env": ("env",),
    "list": ("list", "properties"),
    "bench": ("bench",),
}
SHORT = {"show": 0, "rules": 0, "env": 0, "list": 0, "bench": 4}
"""Commands that end by themselves within seconds, and how: an interrupt may come when their results are there."""

MOMENTS = (0.15, 0.4, 0.8, 1.6, 3.0, 6.0, 12.0)
"""Seconds after which a command is interrupted: while Python starts, while modules are imported, in the middle."""


def write_case_to_replay(folder: Path) -> None:
    """Write a case for a replay that hangs."""
    import numpy as np

    from specsim.conformance.backend import load
    from specsim.conformance.cases import Case, write_case
    from specsim.conformance.outcomes import Observation, observe
    from specsim.conformance.stored import Provenance

    given = {"accept_tokens": np.zeros((1, 2), np.int32), "num_accepted_tokens": np.ones(1, np.int32)}
    expected = observe(load("specsim.reference"), "fill_bonus_tokens", given)
    name = "agreement.fill_bonus_tokens"
    case = Case("fill_bonus_tokens", name, given, expected, Observation(error="no"), "no", Provenance("hangs", 1))
    write_case(case, folder, "case")


def try_one(arguments: tuple[str, ...], number: int, seconds: float) -> tuple[str, list[str]]:
    """Interrupt a command, and return whether it was running and what is wrong about its end."""
    folder = Path(tempfile.mkdtemp(prefix="specsim-interrupt-"))
    for name, source in (("right", RIGHT), ("hangs", HANGS), ("imports", IMPORTS)):
        (folder / f"{name}.py").write_text(source)
    if arguments[0] == "replay":
        write_case_to_replay(folder)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark}
    # NOTE: a shell without job control lets what it starts ignore SIGINT, and so would this process what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "specsim", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds * SLOWNESS)
        is_running = process.poll() is None
        process.send_signal(number)
        began = time.monotonic()
        try:
            code: int | None = process.wait(30 * SLOWNESS)
        except subprocess.TimeoutExpired:
            code = None
    took = time.monotonic() - began
    was_running = is_running and code != SHORT.get(arguments[0])
    left = processes_left(mark)
    end_all(mark)
    process.wait()
    reported = (folder / "out").read_text(errors="replace") + (folder / "err").read_text(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    wrong = []
    if was_running and code != 130 and not (seconds <= MOMENTS[0] and code in (-number, 1)):
        wrong.append(f"exit code {code}, but should be 130")
    if took > SECONDS_TO_END * SLOWNESS:
        wrong.append(f"ended after {took:.1f} seconds")
    if left:
        wrong.append(f"left: {left[0][:120]} and {len(left) - 1} more")
    if RAW.search(reported) and "specsim" in reported:
        wrong.append(f"raw error: {reported.strip().splitlines()[-1][:200]}")
    if was_running and code == 130 and "interrupted" not in reported:
        wrong.append("does not say that it was interrupted")
    if wrong and "-v" in sys.argv:
        wrong.append(f"\n{reported[-3000:]}")
    return "running" if was_running else "ended", wrong


def main() -> int:
    """Interrupt every command, or those whose names hold some words, and print what came of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("words", nargs="*", help="Only commands whose names hold one of these.")
    options.add_argument("-v", action="store_true", help="Print what mishandled commands printed.")
    options.add_argument("--moments", type=float, nargs="*", default=MOMENTS)
    given = options.parse_args()
    chosen = {name for name in COMMANDS if not given.words or any(word in name for word in given.words)}
    return tally("interrupts", interrupt_each(chosen, given.moments))


def interrupt_each(names: Collection[str], moments: Sequence[float]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what is wrong with each interrupt that reached a command before it had ended."""
    for name, arguments in COMMANDS.items():
        for number in (signal.SIGINT, signal.SIGTERM) if name in names else ():
            for seconds in moments:
                was, wrong = try_one(arguments, number, seconds)
                if was == "ended":
                    break
                yield f"{name}, {number.name} after {seconds:g} s", wrong


if __name__ == "__main__":
    sys.exit(main())
