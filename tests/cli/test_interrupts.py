"""An interrupt reaches a command wherever it arrives."""

import subprocess
import sys

LOST = """
import signal, time
from specsim.cli.interrupts import listen

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.{name})

listen()
try:
    for _ in range(3):
        Finalised()
    for _ in range(100):
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_in_a_finalizer_is_not_lost():
    for name in ("SIGINT", "SIGTERM"):
        command = [sys.executable, "-c", LOST.format(name=name)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
