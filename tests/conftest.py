"""Settings of every test: Triton's mode is chosen before anything imports Triton."""

from hypothesis import settings

from specsim.cli.device import choose_device

choose_device()
settings.register_profile("specsim", deadline=None, print_blob=True)
settings.load_profile("specsim")
