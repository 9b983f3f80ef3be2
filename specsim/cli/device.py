"""What the Triton path runs on, decided before anything imports Triton, and the loading of implementations."""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from specsim.cli.output import Exit, Failed
from specsim.conformance.backend import Backend, BackendUnavailable, load

INTERPRETER = "TRITON_INTERPRET"
OURS = "specsim.gpu"


def choose_device() -> str:
    """Turn on Triton's interpreter if torch sees no GPU, and return what kernels will run on.

    Returns
    -------
    device : str
        ``absent`` if there is no torch; a choice that the environment already makes is kept.
    """
    try:
        import torch
    except ImportError:
        return "absent"
    has_gpu = bool(torch.cuda.is_available())
    if not has_gpu:
        os.environ.setdefault(INTERPRETER, "1")
    name = str(torch.cuda.get_device_name()) if has_gpu else "CPU"
    return f"{name}, interpreted" if os.environ.get(INTERPRETER) == "1" else name


def load_implementation(name: str) -> Backend:
    """Import an implementation; modules of the working directory are found as well.

    Raises
    ------
    Failed
        UNAVAILABLE: it does not import.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if choose_device() == "absent" and name == OURS:
        raise Failed(f"{OURS} needs torch and triton: pip install 'specsim[gpu]'", Exit.UNAVAILABLE)
    try:
        return load(name)
    except BackendUnavailable as error:
        raise Failed(f"{error}", Exit.UNAVAILABLE) from error
    except SystemExit as left:  # NOTE: a script that is mistaken for a module may leave when it is imported.
        raise Failed(f"{name} does not import: it exits with {left.code}", Exit.UNAVAILABLE) from left


def need_suite() -> None:
    """Check that what the conformance suite imports is installed, and keep its notes out of the working directory.

    Raises
    ------
    Failed
        UNAVAILABLE: it is not.
    """
    for distribution in ("hypothesis", "pytest"):
        if importlib.util.find_spec(distribution) is None:
            raise Failed(f"the suite needs {distribution}: pip install 'specsim[properties]'", Exit.UNAVAILABLE)
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "specsim-hypothesis"))
