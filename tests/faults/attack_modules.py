"""``python -m tests.faults.attack_modules`` checks every hostile module, and ends with 1 if any is mishandled."""

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.hostile_modules import HOSTILE, Hostile
from tests.faults.judging import Attempt, complaints, run, tally

ARGUMENTS = (
    *("--property", "agreement.fill_bonus_tokens", "--property", "mutation.fill_bonus_tokens", "--examples", "6"),
    *("--seed", "1", "--call-timeout", "2", "--start-timeout", "6", "--max-memory", "1500", "--budget", "40"),
)


def attempt_of(hostile: Hostile, number: int, folder: Path) -> Attempt:
    """Return the check of a hostile module, written into a folder."""
    name = f"hostile_{number}"
    (folder / f"{name}.py").write_text(hostile.source)
    return Attempt(hostile.name, ("check", name, *ARGUMENTS), hostile.codes, folder)


def try_one(number: int, hostile: Hostile) -> tuple[str, float, list[str]]:
    """Check a hostile module, and return what is wrong about the end."""
    folder = Path(tempfile.mkdtemp(prefix="specsim-hostile-"))
    try:
        attempt = attempt_of(hostile, number, folder)
        ran = run(attempt)
        wrong = complaints(attempt, ran)
        if wrong and "-v" in sys.argv:
            wrong.append("\n".join([ran.stdout[-600:], ran.stderr[-1500:]]))
        return hostile.name, ran.seconds, wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Try every module, or those whose names hold some words, and print what came of them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("words", nargs="*", help="Only modules whose names hold one of these.")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("-v", action="store_true")
    given = options.parse_args()
    chosen = [one for one in enumerate(HOSTILE) if not given.words or any(word in one[1].name for word in given.words)]
    with ThreadPoolExecutor(given.jobs) as pool:
        tried = pool.map(lambda one: try_one(*one), chosen)
        return tally("hostile modules", ((f"{name} ({seconds:.0f} s)", wrong) for name, seconds, wrong in tried))


if __name__ == "__main__":
    sys.exit(main())
