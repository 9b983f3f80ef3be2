"""An interrupt reaches a command wherever it arrives."""

import subprocess
import sys

BEGINNING = """
import signal, sys, time
from specsim.cli import interrupts

# NOTE: a shell without job control lets what it starts ignore SIGINT, and so on.
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.listen()
"""
LOST = """
class Finalised:
    def __del__(self):
        signal.raise_signal(signal.{name})

try:
    for _ in range(3):
        Finalised()
    for _ in range(100):
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted")
"""
IMPORTED = """
try:
    import signalled
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""
SIGNALLED = """
import os, signal, time
try:
    signal.raise_signal(signal.{name})
    for _ in range(int({seconds} / 0.01)):
        time.sleep(0.01)
except BaseException:
    os.abort()
"""
ENDING = """
import os

class Kept:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

kept = Kept()
sys.argv = ["specsim", "--version"]
from specsim.__main__ import run
run()
"""


def run(script, folder):
    command = [sys.executable, "-c", f"{BEGINNING}sys.path.append({str(folder)!r})\n{script}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_an_interrupt_in_a_finalizer_is_not_lost(tmp_path):
    for name in ("SIGINT", "SIGTERM"):
        assert run(LOST.format(name=name), tmp_path) == (0, "interrupted\n", "")


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path):
    """Modules in C++ abort where Python that they call raises."""
    for name in ("SIGINT", "SIGTERM"):
        (tmp_path / "signalled.py").write_text(SIGNALLED.format(name=name, seconds=0.1))
        assert run(IMPORTED, tmp_path) == (0, "interrupted\n", "")


def test_an_interrupt_does_not_wait_for_a_long_import(tmp_path):
    (tmp_path / "signalled.py").write_text(SIGNALLED.format(name="SIGTERM", seconds=5))
    shortened = f"interrupts.MOST_SECONDS_OF_IMPORTS = 0.1\n{IMPORTED}"
    assert run(shortened, tmp_path) == (130, "", "specsim: interrupted\n")


def test_an_interrupt_after_the_end_changes_no_exit_code(tmp_path):
    code, reported, remarks = run(ENDING, tmp_path)
    assert (code, reported.startswith("specsim, version "), remarks) == (0, True, "")
