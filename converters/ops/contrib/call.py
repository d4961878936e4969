"""The call that an operator's body is made for: a node's attributes and inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = tuple[int | None, ...]


class NoBody(Exception):
    """A form of an operator that has no body here."""


@dataclass(frozen=True)
class Call:
    """A node: its attributes, the element types and shapes of its inputs if they are known, its file's opset."""

    attributes: Mapping[str, Any]
    inputs: tuple[bool, ...]  # whether each possible input of its operator is present
    types: tuple[int | None, ...]
    shapes: tuple[Shape | None, ...]
    version: int

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index]

    def rank(self, index: int) -> int:
        """Raises:
        NoBody: it is not known.
        """
        shape = self.shapes[index] if self.has(index) else None
        if shape is None:
            raise NoBody
        return len(shape)

    def number(self, name: str, usual: float) -> float:
        return float(self.attributes.get(name, usual))

    def integer(self, name: str, usual: int) -> int:
        return int(self.attributes.get(name, usual))

    def named(self, *words: str) -> str:
        """Some of the attributes as text, in the form for another operator.

        Raises:
            NoBody: one is not a number, list of numbers, or plain word.
        """
        attributes = {word: self.attributes[word] for word in words if word in self.attributes}
        return ", ".join(f"{name} = {_written(value)}" for name, value in attributes.items())

    def mean(self, source: str, target: str) -> str:
        """The mean over the last axis, which stays."""
        if self.version < 18:
            return f"{target} = ReduceMean <axes = [-1], keepdims = 1> ({source})"
        return f"{target}_axes = Constant <value_ints = [-1]> ()\n{target} = ReduceMean ({source}, {target}_axes)"

    def constant(self, name: str, value: float, like: str) -> str:
        """A number of the type of another value."""
        if self.version < 15:  # which has no CastLike; files of that opset are float32
            return f"{name} = Constant <value_float = {value!r}> ()"
        return f"{name}_ = Constant <value_float = {value!r}> ()\n{name} = CastLike ({name}_, {like})"


def _written(value: Any) -> str:
    if isinstance(value, bytes) and value.replace(b"_", b"").isalpha():
        return f'"{value.decode("ascii")}"'
    numbers = value if isinstance(value, list) else [value]
    if not all(isinstance(number, int | float) for number in numbers):
        raise NoBody
    return repr(value)
