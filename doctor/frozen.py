"""`@dataclass(frozen=True)` at a quarter of its price.

A start of flexdoctor makes a hundred frozen dataclasses. For each of them the standard library
writes and compiles six methods, which was a fifth of a whole `check`. Five of the six do not need the names of the
fields in their code: here they are written once. The classes are dataclasses in every other respect.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - what type checkers take it for
else:

    def dataclass(*, frozen: bool):
        """Make a class a frozen dataclass. For any other kind use the one of the standard library."""
        if not frozen:
            raise TypeError("only for frozen dataclasses")
        return _frozen


def _frozen(cls: Any) -> Any:
    own = set(vars(cls))
    made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(made)
    for name, method in _SHARED.items():
        if name not in own:
            setattr(made, name, method)
    made.__init__ = _initialiser(fields, hasattr(made, "__post_init__"))
    made._compared = tuple(field.name for field in fields if field.compare)
    return made


def _initialiser(fields: tuple[dataclasses.Field[Any], ...], has_more_to_do: bool) -> Any:
    """Compile `__init__`, the one method whose code differs from class to class: it has the fields as parameters."""
    parameters, values, names = [], [], {"_ABSENT": _ABSENT}
    for field in fields:
        name = field.name
        value = name
        if field.default is not dataclasses.MISSING:
            names[f"_of_{name}"] = field.default
            parameters.append(f"{name}=_of_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_of_{name}"] = field.default_factory
            parameters.append(f"{name}=_ABSENT")
            value = f"_of_{name}() if {name} is _ABSENT else {name}"
        else:
            parameters.append(name)
        values.append(f"{name}={value}")
    code = f"def __init__(self, {', '.join(parameters)}):\n self.__dict__.update({', '.join(values)})"
    if has_more_to_do:
        code += "\n self.__post_init__()"
    exec(code, names)  # noqa: S102 - as dataclasses does; the names are those of the class's fields
    return names["__init__"]


_ABSENT: Any = object()


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equals(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self._compared)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self._compared))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    del value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r} of {type(self).__name__}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r} of {type(self).__name__}")


_SHARED = {
    "__repr__": _repr,
    "__eq__": _equals,
    "__hash__": _hash,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
}
