"""The text of a simulation: as bytes, which are its tokens, and as characters that stand for them."""

from pathlib import Path

from specsim.cli.output import Exit, Failed
from specsim.simulation.models.text_model import default_text


def bytes_as_text(text: str) -> str:
    """Return one character for each byte of a text, as the models do, whose tokens are bytes."""
    return text.encode(errors="surrogateescape").decode("latin-1")


def text_of_bytes(text: str) -> str:
    """Return the text whose bytes these characters stand for."""
    return text.encode("latin-1").decode(errors="replace")


def read_text(path: Path | None) -> bytes:
    """Return the bytes of a text file, or of the default text.

    Raises
    ------
    Failed
        USAGE: the file cannot be read, or is empty.
    """
    if path is None:
        return default_text()
    try:
        if path.is_char_device() or path.is_block_device():
            raise Failed(f"--text {path}: a device, but should be a file", Exit.USAGE)
        text = path.read_bytes()
    except OSError as error:
        raise Failed(f"--text {path}: {error.strerror}", Exit.USAGE) from error
    if not text:
        raise Failed(f"--text {path}: the file is empty, but should hold at least one byte", Exit.USAGE)
    return text
