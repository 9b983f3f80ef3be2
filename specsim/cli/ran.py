"""What users read of what a module brings: what of it ran, how often, and what did not."""

from collections.abc import Iterator, Mapping

from specsim.conformance.brought import Brought
from specsim.conformance.plain_text import named


def lines_of(brings: Brought, uses: Mapping[str, int]) -> Iterator[str]:
    """Yield a line about what ran, and one about what did not, where something is there to say."""
    ran, left = brings.ran(uses), brings.did_not_run(uses)
    words = [f"{_words(kind)} {named(_counted(counts))}" for kind, counts in ran.items()]
    if words or left:
        yield f"ran of {brings.name}: {'; '.join(words) or 'nothing'}"
    if left:
        yield "did not run: " + "; ".join(f"{_words(kind)} {named(names)}" for kind, names in left.items())


def _counted(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} ({count:,})" for name, count in counts.items()]


def _words(kind: str) -> str:
    return kind.replace("_", " ")
