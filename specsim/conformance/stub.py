"""The stub file of the host functions: ``python -m specsim.conformance.stub`` writes ``host_protocol.pyi``."""

from pathlib import Path

from specsim.conformance.catalogue import CATALOGUE

GENERATED = "# Written by python -m specsim.conformance.stub; edit the catalogue instead.\n"
STUB = Path(__file__).parent / "host_protocol.pyi"


def host_stub() -> str:
    """Return the class with one method for each host function, typed like the function."""
    functions = [entry.function for entry in CATALOGUE.values() if entry.function is not None]
    modules = sorted({function.__module__ for function in functions})
    imports = "".join(f"import {module}\n" for module in modules)
    methods = "".join(
        f"    {function.__name__} = staticmethod({function.__module__}.{function.__name__})\n" for function in functions
    )
    return f'{GENERATED}\n{imports}\nclass HostFunctions:\n    """The functions of the host."""\n\n{methods}'


if __name__ == "__main__":
    STUB.write_text(host_stub(), encoding="utf-8")
