"""The host functions as methods: what a loaded backend offers beside the operations.

``host_protocol.pyi``, which ``python -m specsim.conformance.stub`` writes from the catalogue, has them.
"""


class HostFunctions:
    """The functions of the host."""
