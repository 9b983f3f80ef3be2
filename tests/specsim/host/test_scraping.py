"""The server of metrics among many who scrape, and many more who say nothing."""

import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from specsim.host import scraping
from specsim.host.exposition import SpecCollector, served
from specsim.host.metrics import Rates
from specsim.host.positions import PositionCounters
from specsim.host.scraping import answering

NUM_SCRAPES, NUM_IDLE = 200, 300
GENEROUS_S = 60


def ask(port, request=b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"):
    """Return all that is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def port_of(url):
    return int(url.rsplit(":", 1)[1].partition("/")[0])


def has_ended(client):
    """Return whether the other side has closed a connection, however."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode(), environ["QUERY_STRING"].encode()]


@pytest.fixture
def many_files():
    """Let the process, in which both sides of every connection are, open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_two_hundred_scrapes_are_answered_beside_three_hundred_who_say_nothing():
    collector = SpecCollector(3, 4)
    collector.show(Rates(1.5, 0.25), 2, PositionCounters())
    num_threads = threading.active_count()
    with served(collector, 0) as url, ExitStack() as stack:
        port = port_of(url)
        for _ in range(NUM_IDLE):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S))
        assert threading.active_count() == num_threads + 1
        together = threading.Barrier(NUM_SCRAPES, timeout=GENEROUS_S)

        def scrape(_):
            together.wait()
            return ask(port)

        with ThreadPoolExecutor(NUM_SCRAPES) as scrapers:
            answers = list(scrapers.map(scrape, range(NUM_SCRAPES)))
    assert all(answer.startswith(b"HTTP/1.1 200 OK\r\n") for answer in answers)
    assert all(b"\nsglang:spec_accept_length 1.5\n" in answer for answer in answers)


def test_a_connection_beyond_the_bound_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(scraping, "MOST_OPEN", 1)
    monkeypatch.setattr(scraping, "LONGEST_SILENCE_S", GENEROUS_S)
    with answering(hello, 0, "127.0.0.1") as port, socket.create_connection(("127.0.0.1", port)) as first:
        with socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S) as second:
            assert second.recv(65536).startswith(b"HTTP/1.1 503 ")
        first.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert first.makefile("rb").read().endswith(b"\r\n\r\n/a")


def test_who_says_nothing_is_left(monkeypatch):
    monkeypatch.setattr(scraping, "LONGEST_SILENCE_S", 0.01)
    with (
        answering(hello, 0, "127.0.0.1") as port,
        socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S) as client,
    ):
        client.sendall(b"GET /a HTTP/1.1\r\n")
        assert has_ended(client)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /a?b=c HTTP/1.0\r\nAccept: text/plain\r\n\r\n", b"200 OK"),
        (b"what is this\r\n\r\n", b"400 "),
        (b"GET \xff HTTP/1.0\r\n\r\n", b"400 "),
        (b"GET\r\n\r\n", b"400 "),
        (b"GET /" + b"a" * scraping.LARGEST_HEAD, b"431 "),
    ],
)
def test_requests_are_answered_by_their_form(request_bytes, status):
    with answering(hello, 0, "127.0.0.1") as port:
        answer = ask(port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert status != b"200 OK" or answer.endswith(b"\r\n\r\n/ab=c")


def test_an_application_that_raises_is_reported_and_the_next_is_answered():
    def raising(environ, start_response):
        raise ValueError("no")

    with answering(raising, 0, "127.0.0.1") as port:
        assert [ask(port).split(b"\r\n")[0] for _ in range(2)] == [b"HTTP/1.1 500 Internal Server Error"] * 2


def test_the_end_of_a_run_waits_for_no_one_who_has_not_asked(monkeypatch):
    monkeypatch.setattr(scraping, "LONGEST_SILENCE_S", 10 * GENEROUS_S)
    with answering(hello, 0, "127.0.0.1") as port:
        idle = socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_S)
        assert ask(port).startswith(b"HTTP/1.1 200")
    with idle:
        assert has_ended(idle)
