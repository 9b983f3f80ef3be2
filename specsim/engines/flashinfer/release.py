"""The installed FlashInfer, whose kernels are compiled, all of them."""

from functools import cache

from specsim.engines.installed import find_installed
from specsim.engines.kernels import NO_GPU, Home, Kernel, build_flashinfer, has_gpu, reach

WRITTEN_FOR = "0.7.2"
SAMPLING = "flashinfer.sampling"
HOMES = {
    "top_k_renorm": Home(SAMPLING, "top_k_renorm_probs", build_flashinfer),
    "top_p_renorm": Home(SAMPLING, "top_p_renorm_probs", build_flashinfer),
    "chain_speculative_sampling_without_coins": Home(SAMPLING, "chain_speculative_sampling", build_flashinfer),
}


class NeedsGpu(ImportError):
    """An engine is installed that has compiled kernels only, and there is no GPU."""


@cache
def version() -> str:
    """Return which release is installed.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    NeedsGpu
        It is, to no avail.
    """
    installed = find_installed("flashinfer", WRITTEN_FOR)
    if not has_gpu():
        raise NeedsGpu(f"flashinfer {installed.version} has compiled kernels only, and {NO_GPU}")
    return installed.version


@cache
def compiled(operation: str) -> Kernel:
    """Return the kernel of an operation, if it is reached."""
    return reach((HOMES[operation],))
