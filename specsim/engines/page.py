"""Tables of the page about engines, which ``python -m specsim.engines.page docs/engines.md`` writes from the adapters.

Adapters say which definitions they call without the engine: of an adapter's package only its modules are imported.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from specsim.conformance.catalogue import CATALOGUE
from specsim.engines.adapter import Adapted

START, END = "<!-- {}: begin, written by python -m specsim.engines.page docs/engines.md -->", "<!-- {}: end -->"
ADAPTERS = {
    "sglang": "SGLang",
    "sglang_torch": "SGLang in torch",
    "vllm": "vLLM",
    "transformers": "transformers",
    "flashinfer": "FlashInfer",
}
"""The package of each adapter, and what its column is called."""


def page(text: str) -> str:
    """Return the page with its tables as the adapters are."""
    for name, lines in (("adapters", _adapters()), ("definitions", _definitions())):
        start, end = START.format(name), END.format(name)
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = "\n".join([f"{before}{start}", *lines, f"{end}{after}"])
    return text


def rows_of(adapter: str) -> list[Adapted]:
    """Return what an adapter calls for each of its functions that the catalogue has."""
    rows = [row for module in _modules_of(adapter) for row in vars(module).get("TABLE", ())]
    return [row for row in rows if row.name in CATALOGUE]


def _adapters() -> Iterator[str]:
    yield "| adapter | written for | functions of ours | definitions of the engine |"
    yield "|---|---|---|---|"
    for adapter, words in ADAPTERS.items():
        rows, engine = rows_of(adapter), adapter.partition("_")[0]
        names = {definition.name for row in rows for definition in row.definitions}
        written_for = vars(importlib.import_module(f"specsim.engines.{engine}.release"))["WRITTEN_FOR"]
        yield f"| `specsim.engines.{adapter}` | {words.partition(' ')[0]} {written_for} | {len(rows)} | {len(names)} |"


def _definitions() -> Iterator[str]:
    columns = {adapter: {row.name: _names(row) for row in rows_of(adapter)} for adapter in ADAPTERS}
    for operation, names in _compiled().items():
        cell = columns["sglang"].setdefault(operation, [])
        cell += [f"`{name}` (compiled)" for name in names if f"`{name}`" not in cell]
    yield f"| operation or host function | {' | '.join(ADAPTERS.values())} |"
    yield "|---" * (len(ADAPTERS) + 1) + "|"
    for name in CATALOGUE:
        cells = [", ".join(of_adapter.get(name, ())) for of_adapter in columns.values()]
        if any(cells):
            yield f"| `{name}` | {' | '.join(cells)} |"


def _names(row: Adapted) -> list[str]:
    return [f"`{definition.name}`" for definition in row.definitions]


def _compiled() -> dict[str, list[str]]:
    """Return what the compiled kernels of SGLang are called, by operation."""
    homes = vars(importlib.import_module("specsim.engines.sglang.compiled"))["HOMES"]
    return {operation: list(dict.fromkeys(home.name for home in of)) for operation, of in homes.items()}


def _modules_of(adapter: str) -> list[ModuleType]:
    """Import the modules of an adapter, with an empty package in the place of the one that looks for the engine."""
    name = f"specsim.engines.{adapter}"
    folder = str(Path(__file__).parent / adapter)
    if name not in sys.modules:
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [folder]
    return [importlib.import_module(f"{name}.{one.name}") for one in pkgutil.iter_modules([folder])]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(page(place.read_text(encoding="utf-8")), encoding="utf-8")
