"""What a shell suggests, by click's protocol, and what the Tab key then does in shells on a terminal."""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def asked(instruction, words=""):
    """Return what a shell gets that asks what may follow some words."""
    reported = {"_SPECSIM_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": str(max(words.count(" "), 0))}
    command = [sys.executable, "-m", "specsim"]
    environment = {**os.environ, **reported}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return ran.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_commands_and_names(shell):
    assert "_specsim_completion" in asked(f"{shell}_source")
    assert "check" in asked(f"{shell}_complete", "specsim ch")
    assert "build_tree" in asked(f"{shell}_complete", "specsim check --operation build_t")


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D"),
}
"""How each shell starts without a user's own settings, and what its own have to be."""


class Shell:
    """A shell on a terminal, in which keys are pressed."""

    def __init__(self, command, folder):
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m specsim "$@"\n'
        (folder / "specsim").write_text(program)
        (folder / "specsim").chmod(0o755)
        reported = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TERM": "dumb",
            "PS1": "",
            "HOME": str(folder),
        }
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, **reported},
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)

    def press(self, keys, until, seconds=30):
        """Press keys and return what is on the screen when it has what is waited for."""
        os.write(self._ours, keys.encode())
        shown, end = "", time.monotonic() + seconds
        while not re.search(until, shown) and time.monotonic() < end:
            time.sleep(0.02)
            try:
                shown += os.read(self._ours, 65536).decode()
            except BlockingIOError:
                continue
        assert re.search(until, shown), shown
        return shown

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.mark.parametrize("name", SHELLS)
def test_the_tab_key_completes_a_command_an_option_and_a_name(name, tmp_path):
    command, settings = SHELLS[name]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    line = f'eval "$(_SPECSIM_COMPLETE={name}_source specsim)"'
    assert line in (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8"), "as the page says"
    shell = Shell(command, tmp_path)
    try:
        shell.press(f"{settings}\n{line}; echo rea''dy\n", "ready\r\n")
        shell.press("specsim che\t", "specsim check ")
        shell.press("--oper\t", "--operation ")
        shell.press("fill_bon\t", "fill_bonus_tokens")
    finally:
        shell.close()
