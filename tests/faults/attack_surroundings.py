"""``python -m tests.faults.attack_surroundings`` runs commands in odd surroundings, and judges each."""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.judging import Attempt, complaints, run, tally

RIGHT = "from specsim.reference import fill_bonus_tokens\n"
WRONG = "def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    return accept_tokens[:, 0].copy()\n"
CHECK = ("--property", "agreement.fill_bonus_tokens", "--examples", "6", "--seed", "1")
RULES = ("rules", "--algorithm", "eagle")


@dataclass(frozen=True)
class Surrounding:
    """What is odd, and the exit codes that are right there: of a right module, of a wrong one, of ``rules``.

    ``shell`` is a line in which ``$@`` stands for the command. ``prepare`` makes the folder odd.
    """

    name: str
    shell: str = '"$@"'
    environment: dict[str, str | None] = field(default_factory=dict)
    python: tuple[str, ...] = ()
    prepare: Callable[[Path], object] | None = None
    codes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((0,), (1,), (0,))


NO_STDOUT = ((2,), (1, 2), (2,))
"""Where results are missed, and nothing is run."""


def _files_of_modules(folder: Path) -> None:
    for name in ("numpy", "json", "click", "pickle", "typing", "specsim_", "torch", "hypothesis", "random"):
        (folder / f"{name}.py").write_text("raise SystemExit(77)\n")


def _cases_is_a_file(folder: Path) -> None:
    (folder / "specsim-cases").write_text("")


SURROUNDINGS = [
    Surrounding("nothing odd"),
    Surrounding("python -O", python=("-O",)),
    Surrounding("python -OO", python=("-OO",)),
    Surrounding("python -P", python=("-P",)),
    Surrounding("python -s -E would lose the path, so -s", python=("-s",)),
    Surrounding("python -W error", python=("-W", "error::SyntaxWarning")),
    Surrounding("python -X dev", python=("-X", "dev")),
    Surrounding("python -X utf8=0", python=("-X", "utf8=0")),
    Surrounding("python -u", python=("-u",)),
    Surrounding("python -B", python=("-B",)),
    *(
        Surrounding(f"locale {name}", environment={"LC_ALL": name, "LANG": name})
        for name in ("C", "POSIX", "C.UTF-8", "xx_YY.latin9")
    ),
    Surrounding("PYTHONIOENCODING ascii", environment={"PYTHONIOENCODING": "ascii"}),
    Surrounding("PYTHONIOENCODING ascii:strict", environment={"PYTHONIOENCODING": "ascii:strict"}),
    Surrounding("PYTHONHASHSEED 0", environment={"PYTHONHASHSEED": "0"}),
    Surrounding("PYTHONHASHSEED 4711", environment={"PYTHONHASHSEED": "4711"}),
    Surrounding("PYTHONWARNINGS error", environment={"PYTHONWARNINGS": "error::RuntimeWarning"}),
    Surrounding("PYTHONUNBUFFERED", environment={"PYTHONUNBUFFERED": "1"}),
    Surrounding("TERM dumb", environment={"TERM": "dumb"}),
    Surrounding("no TERM", environment={"TERM": None}),
    *(
        Surrounding(f"COLUMNS {width}", environment={"COLUMNS": width})
        for width in ("0", "1", "7", "100000", "-3", "x")
    ),
    Surrounding("no HOME", environment={"HOME": None}),
    Surrounding("a HOME that is absent", environment={"HOME": "/absent/home", "XDG_CACHE_HOME": None}),
    Surrounding("a HOME that is a file", environment={"HOME": "/etc/passwd"}),
    Surrounding("a TMPDIR that is absent", environment={"TMPDIR": "/absent/tmp"}),
    Surrounding("a TMPDIR that is read-only", environment={"TMPDIR": "/proc"}),
    Surrounding("no PATH", environment={"PATH": ""}),
    Surrounding("a large environment", environment={f"LARGE_{place}": "x" * 100_000 for place in range(4)}),
    Surrounding("stdout closed", shell='"$@" >&-'),
    Surrounding("stderr closed", shell='"$@" 2>&-'),
    Surrounding("stdin closed", shell='"$@" <&-'),
    Surrounding("all closed", shell='"$@" <&- >&- 2>&-'),
    Surrounding("stdout full", shell='"$@" >/dev/full', codes=NO_STDOUT),
    Surrounding("stderr full", shell='"$@" 2>/dev/full'),
    Surrounding("stdout a pipe that is closed", shell='"$@" | true; exit ${PIPESTATUS[0]}'),
    Surrounding("stderr a pipe that is closed", shell='"$@" 2> >(true)'),
    Surrounding("many descriptors open", shell='for one in {10..60}; do eval "exec $one</dev/null"; done; "$@"'),
    Surrounding("few descriptors", shell='ulimit -n 24; "$@"', codes=((0, 2, 4), (1, 2, 4), (0, 2))),
    Surrounding("small files", shell='ulimit -f 1; "$@"', codes=((4,), (4,), (0,))),
    Surrounding("a folder with modules of other names", prepare=_files_of_modules),
    Surrounding("a folder of a Unicode name", shell='mkdir "ä \u202e x"; cp *.py "ä \u202e x"; cd "ä \u202e x"; "$@"'),
    Surrounding("a folder that is gone", shell='mkdir gone; cd gone; rmdir ../gone; "$@"', codes=((2,), (2,), (2,))),
    Surrounding("a folder for cases that is a file", prepare=_cases_is_a_file, codes=((2,), (2,), (0,))),
    Surrounding("SIGINT and SIGTERM ignored", shell="trap '' INT TERM; \"$@\""),
    Surrounding("SIGPIPE ignored", shell="trap '' PIPE; \"$@\""),
    Surrounding("SIGCHLD ignored", shell="trap '' CHLD; \"$@\""),
]


def try_one(surrounding: Surrounding) -> list[tuple[str, list[str]]]:
    """Run three commands in a surrounding, and return what is wrong about each end."""
    found = []
    commands = (("check", "right", *CHECK), ("check", "wrong", *CHECK), RULES)
    for arguments, codes in zip(commands, surrounding.codes, strict=True):
        folder = Path(tempfile.mkdtemp(prefix="specsim-surrounding-"))
        (folder / "right.py").write_text(RIGHT)
        (folder / "wrong.py").write_text(WRONG)
        if surrounding.prepare is not None:
            surrounding.prepare(folder)
        name = f"{' '.join(arguments[:2])}, {surrounding.name}"
        attempt = Attempt(name, arguments, codes, folder, surrounding.environment, python=surrounding.python)
        wrapped = ("/bin/bash", "-c", surrounding.shell, "bash")
        try:
            ran = run(attempt, wrapped)
            wrong = complaints(attempt, ran)
            if wrong and "-v" in sys.argv:
                wrong.append(f"{shlex.join(arguments)}\n{ran.stdout[-800:]}\n{ran.stderr[-1500:]}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found.append((name, wrong))
    return found


def main() -> int:
    """Try every surrounding, or those whose names hold some words, and print what came of them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("words", nargs="*", help="Only surroundings whose names hold one of these.")
    options.add_argument("-v", action="store_true", help="Print what mishandled commands printed.")
    given = options.parse_args()
    os.umask(0o077)
    chosen = [one for one in SURROUNDINGS if not given.words or any(word in one.name for word in given.words)]
    return tally("surroundings", (judged for surrounding in chosen for judged in try_one(surrounding)))


if __name__ == "__main__":
    sys.exit(main())
