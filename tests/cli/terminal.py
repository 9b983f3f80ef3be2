"""A terminal to run a command on: what is left on its screen, line by line, scrolled lines included."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import unicodedata

TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]")


def run_on_terminal(command, columns, environment, folder):
    """Run a command whose three streams are a terminal; return its exit code and everything that it wrote."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    written = []

    def read():
        try:
            while piece := os.read(ours, 65536):
                written.append(piece)
        except OSError:  # NOTE: the last one who writes has left.
            pass

    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        code = process.wait(timeout=240)
    finally:
        process.kill()
    reader.join(timeout=10)
    os.close(ours)
    return code, b"".join(written).decode()


def picture_of(written, columns):
    """Return the lines that are left on a terminal of so many columns; colours are written as ``<32;1>``."""
    lines, row, column, style = [[]], 0, 0, ""

    for found in TOKEN.finditer(written):
        text, (arguments, command) = found[0], found.groups()
        if command == "m":
            style = "" if arguments in ("", "0") else ";".join(filter(None, (style, arguments)))
        elif command == "K":
            assert arguments == "2", text
            lines[row] = []
        elif command == "A":
            row = max(0, row - int(arguments or 1))
        elif command in ("h", "l"):
            assert arguments == "?25", text
        elif command is not None:
            raise AssertionError(f"{text!r} is not known")
        elif text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            lines += [[]] * (row - len(lines) + 1)
        else:
            wide = 2 if unicodedata.east_asian_width(text) in "WF" else 1
            if column + wide > columns:
                row, column = row + 1, 0
                lines += [[]] * (row - len(lines) + 1)
            cells = [*lines[row], *[(" ", "")] * (column - len(lines[row]))]
            lines[row] = [*cells[:column], (text, style), *cells[column + 1 :]]
            column += wide
    return "\n".join(_shown(cells) for cells in lines).rstrip("\n") + "\n"


def _shown(cells):
    shown, current = "", ""
    for character, style in cells:
        if style != current:
            shown, current = f"{shown}<{style}>", style
        shown += character
    return (shown + ("<>" if current else "")).rstrip()
