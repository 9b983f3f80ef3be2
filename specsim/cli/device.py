"""What the Triton path runs on, decided before anything imports Triton, and the loading of implementations."""

import atexit
import importlib
import os
import shutil
import sys
import tempfile
from importlib.machinery import PathFinder
from pathlib import Path

from specsim.cli.output import Exit, Failed, remark
from specsim.conformance.backend import Backend, BackendUnavailable, load
from specsim.conformance.isolation.heartbeat import is_watched
from specsim.conformance.limits import BadLimits
from specsim.conformance.piping.command import BadCommand, command_of
from specsim.environment import INTERPRETER, says_yes
from specsim.installation import explain_missing, find_missing

OURS = "specsim.gpu"
OVER_A_PIPE = "the device of a command"
STORAGE = "HYPOTHESIS_STORAGE_DIRECTORY"


def choose_device() -> str:
    """Turn on Triton's interpreter if torch sees no GPU, and return what kernels will run on.

    Returns
    -------
    device : str
        ``absent`` if torch or Triton are; a choice that the environment already makes is kept.
    """
    if find_missing("gpu"):
        return "absent"
    import torch

    has_gpu = bool(torch.cuda.is_available())
    if not has_gpu:
        os.environ.setdefault(INTERPRETER, "1")
    name = str(torch.cuda.get_device_name()) if has_gpu else "CPU"
    return f"{name}, interpreted" if says_yes(INTERPRETER) else name


def need_device(who: str = OURS) -> str:
    """Return what kernels will run on.

    Raises
    ------
    Failed
        UNAVAILABLE: there is no torch, no Triton, or neither a GPU nor the interpreter.
    """
    device = choose_device()
    if device == "absent":
        raise Failed(explain_missing("gpu", who), Exit.UNAVAILABLE)
    if device == "CPU":
        value = os.environ[INTERPRETER]
        raise Failed(
            f"{who} needs a GPU, or Triton's interpreter in its place: {INTERPRETER} is {value!r}, but should be 1",
            Exit.UNAVAILABLE,
        )
    return device


def load_implementation(name: str) -> Backend:
    """Import an implementation; modules of the working directory are found as well, after those that are installed.

    Raises
    ------
    Failed
        UNAVAILABLE: it does not import; USAGE: what it declares, or what a command says, makes no sense.
    """
    choose_device_for(name)
    return import_implementation(name)


def choose_device_for(name: str) -> str:
    """Return what kernels of an implementation will run on, as above; its own modules are not imported.

    What a command runs on is its own affair.

    Raises
    ------
    Failed
        UNAVAILABLE: ours cannot run.
    """
    if command_of(name) is not None:
        return OVER_A_PIPE
    return need_device() if name == OURS or name.startswith(f"{OURS}.") else choose_device()


def import_implementation(name: str) -> Backend:
    """Import an implementation as above, where a device has been chosen."""
    sys.path[:] = path_for(name)
    _say_what_is_hidden(name)
    try:
        return load(name)
    except BackendUnavailable as error:
        raise Failed(f"{error}", Exit.UNAVAILABLE) from error
    except (BadLimits, BadCommand) as error:
        raise Failed(f"{error}", Exit.USAGE) from error
    except KeyboardInterrupt as interrupt:
        if not is_watched():
            raise
        raise Failed(f"{name} does not import: KeyboardInterrupt", Exit.UNAVAILABLE) from interrupt
    except SystemExit as left:  # NOTE: a script that is mistaken for a module may leave when it is imported.
        raise Failed(f"{name} does not import: it exits with {left.code}", Exit.UNAVAILABLE) from left


def path_for(name: str) -> list[str]:
    """Return where modules are found while one of that name is tried: for one of a user, here too, but last."""
    here = os.getcwd()
    return [*sys.path, here] if not name.startswith("specsim.") and not {here, ""} & set(sys.path) else sys.path


def _say_what_is_hidden(name: str) -> None:
    """Say so where a module of the working directory stands after an installed one."""
    if name.startswith("specsim."):
        return
    here, package = os.getcwd(), name.partition(".")[0]
    importlib.invalidate_caches()
    own, found = (PathFinder.find_spec(package, path) for path in ([here], sys.path))
    files = [spec.origin for spec in (found, own) if spec is not None and spec.origin is not None]
    if len(files) == 2 and not os.path.samefile(*files):
        remark(f"{package} is {files[0]}: what is installed goes before {files[1]}")


def need_suite() -> None:
    """Check that what the conformance suite imports is installed, and keep its notes out of the working directory.

    Raises
    ------
    Failed
        UNAVAILABLE: it is not.
    """
    if find_missing("properties"):
        raise Failed(explain_missing("properties", "the suite"), Exit.UNAVAILABLE)
    if STORAGE not in os.environ:
        os.environ[STORAGE] = str(_storage_of_the_user())


def _storage_of_the_user() -> Path:
    """Return a folder for the notes of Hypothesis: in the user's cache, or a fresh one that goes with this process."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "specsim" / "hypothesis"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        folder = Path(tempfile.mkdtemp(prefix="specsim-hypothesis-"))
    except OSError:
        try:
            folder = Path(tempfile.mkdtemp(prefix="specsim-hypothesis-"))
        except OSError:
            return folder  # NOTE: Hypothesis goes on without its notes.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
