"""Prompts of a file: a line each, as text or as token ids."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from specsim.checkpoints.folder import Absent, Folder
from specsim.rejection import contradiction

FORMS = 'a JSON string, {"prompt": "text"} or {"token_ids": [1, 2]}'


def read_prompts(path: Path, folder: Folder, most: int | None = None) -> list[list[int]]:
    """Return the tokens of each prompt of a file, of the first ``most`` lines if that is given; empty lines are none.

    Raises
    ------
    Absent
        The file is not there, or it has text and the folder has no tokenizer.
    SpecRejection
        BAD_CONFIGURATION: a line that is no prompt, a token that the vocabulary lacks, or no line at all.
    """
    if not path.is_file():
        raise Absent(f"{path} is not there, but should have a prompt a line")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise contradiction(f"{path}, byte {error.start}", error.reason, "UTF-8 text", "prompts are text") from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][:most]
    if not numbered:
        raise contradiction(f"{path}", "no line with a prompt", "at least one", "there would be nothing to run")
    return [_tokens_of(f"{path}, line {number}", line, folder) for number, line in numbered]


def encode(text: str, folder: Folder) -> list[int]:
    """Return the tokens of a text, with those that the folder's tokenizer adds."""
    return [int(token) for token in folder.tokenizer(text)["input_ids"]]


def _tokens_of(where: str, line: str, folder: Folder) -> list[int]:
    """Return the tokens of one line."""
    try:
        given: Any = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise contradiction(where, f"no JSON ({error})", FORMS, "a line is one prompt") from error
    if isinstance(given, dict) and len(given) == 1:
        ((name, value),) = given.items()
        if name == "token_ids" and isinstance(value, list):
            return _checked(where, value, folder)
        given = value if name == "prompt" else None
    if not isinstance(given, str):
        raise contradiction(where, line.strip()[:60], FORMS, "a prompt is text or tokens")
    return _checked(where, encode(given, folder), folder)


def _checked(where: str, tokens: Sequence[Any], folder: Folder) -> list[int]:
    """Return tokens of the vocabulary."""
    if not tokens:
        raise contradiction(where, "no tokens", "at least one", "a target needs something to go on from")
    for token in tokens:
        if type(token) is not int or not 0 <= token < folder.vocab_size:
            expected = f"a whole number from 0 to {folder.vocab_size - 1}"
            raise contradiction(f"{where}, a token", token, expected, f"that is the vocabulary of {folder.path}")
    return list(tokens)
