"""Operations and their structural rules: ``python -m specsim.validation.page`` prints ``docs/operations.md``."""

from specsim.operations.derived import page as tables
from specsim.validation import STRUCTURE


def page() -> str:
    """Return the page."""
    return tables.page({name: [one.in_words() for one in rules] for name, rules in STRUCTURE.items()})


if __name__ == "__main__":
    print(page(), end="")
