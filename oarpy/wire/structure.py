"""Values that travel: each field has a check of its values, and strict decoding follows from the checks.

A class without ``dataclasses`` and ``typing``: a node's Python would load them for every agent and every step.
"""

from __future__ import annotations

from oarpy.wire.frames import Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

    Value = TypeVar("Value")
else:

    def dataclass_transform(**_options):
        """Stand in for that of ``typing``, which tells a type checker alone."""
        return lambda kind: kind


_NONE = object()
_LONGEST_SHOWN = 64


class _Field:
    __slots__ = ("check", "default", "write")

    def __init__(self, check: Callable[[Any], Any], default: object, write: Callable[[Any], object] | None) -> None:
        self.check = check
        self.default = default
        self.write = write


def field(
    check: Callable[[Any], Value], *, default: Any = _NONE, write: Callable[[Value], object] | None = None
) -> Value:
    """Declare a field. ``check`` returns the value that JSON stands for, or raises ``ValueError`` or ``TypeError``.

    ``default`` is for code that makes a value: a value that arrives has all fields. ``write`` returns what is sent, if
    it is not the value.
    """
    return _Field(check, default, write)  # type: ignore[return-value]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Structure:
    """A value that does not change, made of the fields that its class declares."""

    CHECKS: ClassVar[dict[str, Callable[[Any], Any]]] = {}
    DEFAULTS: ClassVar[dict[str, Any]] = {}
    WRITERS: ClassVar[dict[str, Callable[[Any], object]]] = {}

    def __init_subclass__(cls) -> None:
        fields = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        cls.CHECKS = {**cls.CHECKS, **{name: spec.check for name, spec in fields.items()}}
        defaults = {name: spec.default for name, spec in fields.items() if spec.default is not _NONE}
        cls.DEFAULTS = {**cls.DEFAULTS, **defaults}
        writers = {name: spec.write for name, spec in fields.items() if spec.write is not None}
        cls.WRITERS = {**cls.WRITERS, **writers}
        for name in fields:
            delattr(cls, name)

    def __init__(self, *values: object, **named: object) -> None:
        content = self.__dict__
        if self.DEFAULTS:
            content.update(self.DEFAULTS)
        content.update(zip(self.CHECKS, values))  # noqa: B905 - Python 3.9 has no such parameter
        if named:
            content.update(named)
        if len(content) != len(self.CHECKS) or (named and content.keys() != self.CHECKS.keys()):
            raise TypeError(f"{type(self).__name__} is made of {', '.join(self.CHECKS)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *map(self.__dict__.__getitem__, self.CHECKS)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={vars(self)[name]!r}' for name in self.CHECKS)})"

    def replace(self, **changes: object) -> Self:
        """Return the same with other values."""
        if not changes.keys() <= self.CHECKS.keys():
            raise TypeError(f"{type(self).__name__} is made of {', '.join(self.CHECKS)}")
        return self.complete({**self.__dict__, **changes})

    def entry(self) -> dict[str, Any]:
        """Return the object to be sent; ``json`` with ``default=vars`` may write the values in it."""
        if not self.WRITERS:
            return self.__dict__
        return {**self.__dict__, **{name: write(self.__dict__[name]) for name, write in self.WRITERS.items()}}

    @classmethod
    def read(cls, entry: object) -> Self:
        """Return the value of an object that arrived; raise :class:`Malformed` when it is not exactly that."""
        return cls.complete(cls.checked(entry))

    @classmethod
    def checked(cls, entry: object) -> dict[str, Any]:
        """Return the fields of an object that arrived, which need not be all; raise :class:`Malformed`."""
        if not isinstance(entry, dict):
            raise Malformed(f"not an object: {shown(entry)}")
        name, checks = "", cls.CHECKS
        values = {}
        try:
            for name, value in entry.items():
                values[name] = checks[name](value)
        except (KeyError, TypeError, ValueError):
            raise Malformed(f"bad value for {shown(name)}: {shown(entry[name])}") from None
        return values

    @classmethod
    def complete(cls, values: dict[str, Any]) -> Self:
        """Return the value with these checked fields; raise :class:`Malformed` when some are missing."""
        if len(values) != len(cls.CHECKS):
            raise Malformed(f"missing {', '.join(sorted(cls.CHECKS.keys() - values.keys()))}")
        structure = cls.__new__(cls)
        object.__setattr__(structure, "__dict__", values)
        return structure


def shown(value: object) -> str:
    """Return a value as an error line shows it; a nested value, which may be too deep for that, by its type."""
    if isinstance(value, (dict, list)):
        return type(value).__name__
    return repr(value[:_LONGEST_SHOWN] if isinstance(value, str) else value)[:_LONGEST_SHOWN]
