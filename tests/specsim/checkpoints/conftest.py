"""Checkpoints that a module's tests share."""

import pytest


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return a function that returns the folder of a checkpoint of random numbers, which is made once."""
    from tests.specsim.checkpoints.tiny import config_of, save_checkpoint

    folders = {}

    def make(architecture, seed=1, **sizes):
        key = (architecture, seed, *sizes.items())
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp(architecture)
            save_checkpoint(folders[key], config_of(architecture, **sizes), seed)
        return folders[key]

    return make
