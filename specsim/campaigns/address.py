"""Where a cluster is, and what is sent there: refused before Ray is asked, which tries for minutes."""

import importlib.util
import os
import socket
from contextlib import suppress
from typing import Any

import specsim

SECONDS_TO_CONNECT = 5.0
FRAME_BYTES, FRAME_KIND, SETTINGS = 9, 3, 4
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""How HTTP/2 begins, on which Ray's servers run: each side says at once what it takes, in a frame of this kind."""

AUTO = "auto"
EXAMPLE = "10.0.0.1:6379, as ray start prints it, or auto"


class NoCluster(Exception):
    """A cluster cannot be used: why in words, and whether that is because it is not there."""

    def __init__(self, words: str, is_absent: bool = True) -> None:
        super().__init__(words)
        self.is_absent = is_absent


def check_address(address: str) -> None:
    """Refuse an address that is none, or at which no one answers: Ray itself tries for minutes.

    Raises
    ------
    NoCluster
        It is.
    """
    if address == AUTO:
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 2**16) or "/" in host:
        because = "units come back on Ray's own port"
        raise NoCluster(f"--address is {address}, but should be {EXAMPLE}, because {because}", is_absent=False)
    try:
        with socket.create_connection((host, int(port)), SECONDS_TO_CONNECT) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            connection.sendall(HELLO)
            answer = connection.recv(FRAME_BYTES)
    except OSError as error:
        raise NoCluster(f"--address {address} cannot be reached: {error.strerror or error}") from error
    if len(answer) < FRAME_BYTES or answer[FRAME_KIND] != SETTINGS:
        raise NoCluster(f"--address {address} is no Ray cluster: what listens there does not speak gRPC")


def environment_for(implementation: str, address: str | None, folder: str) -> dict[str, Any]:
    """Return the runtime environment of a module where none is given: one of the working directory goes to each node.

    On this machine, nodes find it where it is.
    """
    top = implementation.partition(".")[0]
    is_here = any(os.path.exists(name) for name in (f"{top}.py", top))
    if address is None or top == specsim.__name__ or not is_here or _is_installed(top):
        return {}
    return {"working_dir": ".", "excludes": [f"/{folder}", ".git", "__pycache__"]}


def _is_installed(top: str) -> bool:
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        origin = None if spec is None else spec.origin
        return origin is not None and not os.path.abspath(origin).startswith(os.getcwd() + os.sep)
    return False
