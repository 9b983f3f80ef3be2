"""Settings of every test: Triton's mode is chosen before anything imports Triton, and no clock decides a verdict."""

from hypothesis import HealthCheck, settings

from specsim.cli.device import choose_device

choose_device()
settings.register_profile("specsim", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("specsim")
