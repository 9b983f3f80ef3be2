"""Prompts of a file are text or tokens, and a line that is neither is named."""

import pytest

pytest.importorskip("transformers", reason="checkpoints need the extra models")

from specsim.checkpoints.folder import Absent, open_folder
from specsim.checkpoints.prompts import FORMS, encode, read_prompts
from specsim.rejection import SpecRejection
from tests.specsim.checkpoints.tiny import LLAMA, save_tokenizer


@pytest.fixture
def folder(made):
    """Return a checkpoint that has a tokenizer, a token a letter."""
    path = made(LLAMA, seed=8)
    save_tokenizer(path)
    return open_folder(path)


@pytest.fixture
def file(tmp_path):
    """Return a function that writes lines."""
    path = tmp_path / "prompts.jsonl"

    def write(*lines):
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def test_lines_are_text_or_tokens(folder, file):
    path = file('"abc"', "", '{"prompt": "cab."}', '{"token_ids": [5, 31]}')
    assert read_prompts(path, folder) == [[0, 1, 2], [2, 0, 1, 27], [5, 31]]
    assert read_prompts(path, folder, most=1) == [[0, 1, 2]]
    assert folder.tokenizer.decode(encode("a text.", folder)) == "a text."


@pytest.mark.parametrize(
    ("line", "got", "expected", "because"),
    [
        ("[1, 2]", "[1, 2]", FORMS, "a prompt is text or tokens"),
        ('{"text": "a"}', '{"text": "a"}', FORMS, "a prompt is text or tokens"),
        ('{"prompt": 7}', '{"prompt": 7}', FORMS, "a prompt is text or tokens"),
        ('{"prompt": "a", "token_ids": [1]}', '{"prompt": "a", "token_ids": [1]}', FORMS, "a prompt is text or tokens"),
        ('""', "no tokens", "at least one", "a target needs something to go on from"),
        ('{"token_ids": []}', "no tokens", "at least one", "a target needs something to go on from"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(folder, file, line, got, expected, because):
    path = file('"abc"', line)
    with pytest.raises(SpecRejection) as caught:
        read_prompts(path, folder)
    rejection = caught.value
    assert (rejection.what, rejection.got) == (f"{path}, line 2", got)
    assert (rejection.expected, rejection.because) == (expected, because)


@pytest.mark.parametrize("token", [32, -1, 2.0, True, "a"])
def test_a_token_outside_the_vocabulary_is_named(folder, file, token):
    path = file(
        f'{{"token_ids": [1, {str(token).lower() if token is True else repr(token).replace(chr(39), chr(34))}]}}'
    )
    with pytest.raises(SpecRejection) as caught:
        read_prompts(path, folder)
    rejection = caught.value
    assert (rejection.what, rejection.got) == (f"{path}, line 1, a token", token)
    assert rejection.expected == "a whole number from 0 to 31"


def test_files_without_prompts_are_refused(folder, file, tmp_path):
    with pytest.raises(Absent, match=r"none\.jsonl is not there, but should have a prompt a line"):
        read_prompts(tmp_path / "none.jsonl", folder)
    with pytest.raises(SpecRejection, match="no line with a prompt, but should be at least one"):
        read_prompts(file("", " "), folder)
    with pytest.raises(SpecRejection, match="line 1 is no JSON"):
        read_prompts(file("plain words"), folder)
    path = file("")
    path.write_bytes(b'"a\xff"')
    with pytest.raises(SpecRejection, match="byte 2 is invalid start byte, but should be UTF-8 text"):
        read_prompts(path, folder)


def test_text_needs_a_tokenizer_and_tokens_need_none(made, file):
    bare = open_folder(made(LLAMA))
    assert read_prompts(file('{"token_ids": [5]}'), bare) == [[5]]
    with pytest.raises(Absent, match="has no tokenizer that can be read"):
        read_prompts(file('"abc"'), bare)
