"""The models that the documentation shows, loaded from where it shows them."""

import importlib.util
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


def load_example(name):
    """Import ``docs/examples/<name>.py``."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


my_transformer = load_example("my_transformer")
