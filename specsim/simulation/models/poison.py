"""What an entry holds that no one has written: a number that is recognisably wrong, and finite.

A forward may load such an entry and weigh it with 0; a NaN would then spread although nothing is wrong.
"""

LOUD = -192.0
"""Far outside of what a model writes, and exact in every floating-point type, those of eight bits included."""


def poison_of(dtype: str) -> float | int | bool:
    """Return the value of an unwritten entry of a buffer, by the name of its element type."""
    if dtype == "bool":
        return True
    if dtype.startswith("uint"):
        return (1 << int(dtype.removeprefix("uint"))) - 1
    return -1 if dtype.startswith("int") else LOUD
