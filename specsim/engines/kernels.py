"""Kernels that are compiled: reached where torch sees a GPU, in the first installed package that has them."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.engines.installed import version_of_package

NO_GPU = "torch sees no GPU"


@dataclass(frozen=True)
class Home:
    """A module in which releases have a kernel, and what it is called there.

    Parameters
    ----------
    build : callable or None
        Given the module, compiles what is otherwise compiled by the first call, which is timed.
    is_strict : bool
        Of a sampler of trees, what ``strict`` of the operation is in its releases.
    """

    module: str
    name: str
    build: Callable[[Any], object] | None = None
    is_strict: bool = True

    @property
    def package(self) -> str:
        """What has to be installed."""
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.module} ({self.package} {version_of_package(self.package)})"


@dataclass(frozen=True)
class Kernel:
    """A compiled function and its home; None where it is not reached, for these reasons."""

    function: Callable[..., Any] | None
    home: Home | None
    reasons: tuple[str, ...] = ()

    def call(self, *arguments: Any) -> Any:
        """Call it.

        Raises
        ------
        NotImplementedError
            It is not reached.
        """
        if self.function is None:
            raise NotImplementedError(f"no compiled kernel is reached, as {'; '.join(self.reasons)}")
        return self.function(*arguments)

    def in_words(self, otherwise: str) -> str:
        """Return where it comes from, or what there is otherwise and why."""
        return f"{otherwise}, as {'; '.join(self.reasons)}" if self.home is None else f"compiled, of {self.home}"


def has_gpu() -> bool:
    """Return whether kernels are compiled."""
    import torch

    return torch.cuda.is_available()


def build_flashinfer(module: Any) -> None:
    """Compile FlashInfer's module of samplers, or load it."""
    module.get_sampling_module()


def reach(homes: Sequence[Home], module_of: Callable[[str], Any] = importlib.import_module) -> Kernel:
    """Return a kernel from the first of its homes that has it; without a GPU nothing is imported.

    Parameters
    ----------
    module_of : callable
        Returns the module of a name, or raises.
    """
    if not has_gpu():
        return Kernel(None, None, (NO_GPU,))
    reasons: list[str] = []
    for home in homes:
        try:
            module = module_of(home.module)
            function = getattr(module, home.name)
            if home.build is not None:
                home.build(module)
        except Exception as error:  # NOTE: what is compiled may raise anything at all when it is loaded.
            reasons.append(_why(home, error))
        else:
            return Kernel(function, home)
    return Kernel(None, None, tuple(reasons))


def _why(home: Home, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == home.package:
        return f"{home.package} is not installed"
    if isinstance(error, ModuleNotFoundError) and error.name == home.module:
        return f"{home.package} {version_of_package(home.package)} has no {home.module}"
    if isinstance(error, AttributeError):
        return f"{home} has no {home.name}"
    first_line = next(iter(str(error).splitlines()), "")
    return f"{home} does not load, {type(error).__name__}: {first_line}"
