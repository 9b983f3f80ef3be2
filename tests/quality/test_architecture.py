"""The page of the architecture names files that there are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_paths_on_the_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {
        word.partition("::")[0] for word in text.split("`")[1::2] if "/" in word and ".py" in word and " " not in word
    }
    assert named
    missing = sorted(path for path in named if not path.startswith("worker/") and not (ROOT / path).is_file())
    assert missing == []
