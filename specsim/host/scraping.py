"""A server for scrapes: one thread, whatever the number of connections.

A connection that says nothing costs a few buffers and is closed after a while; one beyond the bound is refused at once.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, parse_headers
from io import BytesIO
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

App = Callable[[dict[str, Any], Callable[..., Any]], Any]

LONGEST_SILENCE_S = 2.0
"""How long a client may take to ask, or to take its answer, and so the end of a run for a client."""

MOST_OPEN = 640
"""Connections at a time: with the files of a run they stay below the thousand that a process usually may open."""

BACKLOG = 1024
"""Connections that the system takes on while the server is busy."""

LARGEST_HEAD = 16 * 1024
"""Bytes of a request before its empty line."""


@contextmanager
def answering(app: App, port: int, address: str) -> Iterator[int]:
    """Answer requests by a WSGI application while the block runs.

    Parameters
    ----------
    app : callable
        The application; it is called in the thread of the server, and should be quick.
    port : int
        0 for any free port.
    address : str
        Interface to listen on.

    Yields
    ------
    port : int
        The one that is listened at.

    Raises
    ------
    OSError
        The address is not there, or the port is taken.
    """
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.create_server((str(place[0]), port), family=family, backlog=BACKLOG)
    server = _Server(app, listener)
    thread = Thread(target=asyncio.run, args=(server.serve(),), name="specsim-metrics", daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.stop()
        thread.join()


class _Server:
    """Connections of one listener, each a task of one event loop."""

    def __init__(self, app: App, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        self._waiting: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until stopped; who has asked by then is answered."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=LARGEST_HEAD, backlog=BACKLOG)
        if not self._is_stopped:
            await self._stopped.wait()
        server.close()
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, *self._answering, return_exceptions=True)

    def stop(self) -> None:
        """End the server from another thread."""
        self._is_stopped = True
        with suppress(RuntimeError):
            # NOTE: the loop may have ended, where its thread could not serve.
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        is_refused = len(self._waiting) + len(self._answering) >= MOST_OPEN
        self._waiting.add(task)
        try:
            async with asyncio.timeout(LONGEST_SILENCE_S):
                answer = _refusal("503 Service Unavailable") if is_refused else await self._answer(reader)
            self._waiting.discard(task)
            self._answering.add(task)
            async with asyncio.timeout(LONGEST_SILENCE_S):
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            # NOTE: a timeout is an OSError as well; a client that left or says nothing needs no answer.
            pass
        finally:
            self._waiting.discard(task)
            self._answering.discard(task)
            with suppress(OSError):
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _refusal("431 Request Header Fields Too Large")
        try:
            environ = _environ_of(head)
        except (ValueError, HTTPException):
            return _refusal("400 Bad Request")
        return _answer_of(self._app, environ)


def _environ_of(head: bytes) -> dict[str, Any]:
    """Return what a WSGI application gets of a request.

    Raises
    ------
    ValueError, HTTPException
        It is no request of HTTP.
    """
    lines = BytesIO(head)
    method, target, version = lines.readline().decode("ascii").split()
    if not version.startswith("HTTP/"):
        raise ValueError(version)
    place = urlsplit(target)
    fields = parse_headers(lines)
    reported = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in fields.items()}
    return {**reported, "REQUEST_METHOD": method, "PATH_INFO": place.path, "QUERY_STRING": place.query}


def _answer_of(app: App, environ: Mapping[str, Any]) -> bytes:
    begun: list[tuple[str, list[tuple[str, str]]]] = []
    try:
        body = b"".join(app(dict(environ), lambda status, fields, *_: begun.append((status, list(fields)))))
    except Exception:  # NOTE: a scraper gets an error, and the next one may have more luck.
        return _refusal("500 Internal Server Error")
    status, fields = begun[-1]
    return _laid_out(status, fields, body)


def _refusal(status: str) -> bytes:
    return _laid_out(status, [("Content-Type", "text/plain; charset=utf-8")], f"{status}\n".encode())


def _laid_out(status: str, fields: list[tuple[str, str]], body: bytes) -> bytes:
    own = [("Content-Length", str(len(body))), ("Connection", "close")]
    names = {name.lower() for name, _ in own}
    lines = [f"{name}: {value}" for name, value in (*own, *(one for one in fields if one[0].lower() not in names))]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1") + body
