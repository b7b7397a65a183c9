"""`@dataclass(frozen=True)` at a tenth of its price.

A start of flexdoctor makes a hundred frozen dataclasses. For each of them the standard library writes and compiles six
methods, which was a fifth of a whole `check`. Five of the six do not need the names of the fields in their code: here
they are written once. The sixth, and what makes the class a dataclass to others, wait until somebody asks for them.
The classes are dataclasses in every other respect; they have fields of their own alone.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable
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
    if cls.__bases__ != (object,):
        raise TypeError("only for classes that inherit nothing")
    own = set(vars(cls))
    for name, method in _SHARED.items():
        if name not in own:
            setattr(cls, name, method)
    cls.__init__ = _Late(cls, "__init__", _initialise)
    for name in _OF_A_DATACLASS:
        setattr(cls, name, _Late(cls, name, _complete))
    return cls


class _Late:
    """Stands for an attribute of a class until somebody asks for it: half of the classes never make an object.

    Every way to it goes through the class, as `dataclasses.fields` and `inspect.signature` do.
    """

    def __init__(self, cls: Any, name: str, make: Callable[[Any], None]) -> None:
        self.cls = cls
        self.name = name
        self.make = make

    def __get__(self, instance: Any, owner: Any) -> Any:
        with _ONE_AT_A_TIME:
            if self.cls.__dict__[self.name] is self:
                self.make(self.cls)
        return getattr(owner if instance is None else instance, self.name)


def _complete(cls: Any) -> None:
    """Set what others know a dataclass by, `_OF_A_DATACLASS`."""
    # The defaults are taken from the class before that takes them away.
    _ = cls.__init__
    dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
    fields = dataclasses.fields(cls)
    cls.__match_args__ = tuple(field.name for field in fields)  # type: ignore[misc]
    cls._compared = tuple(field.name for field in fields if field.compare)


def _initialise(cls: Any) -> None:
    """Compile `__init__`, the one method whose code differs from class to class: it has the fields as parameters."""
    parameters, values, names = [], [], {"_ABSENT": _ABSENT}
    for name in inspect.get_annotations(cls):
        value = name
        default: Any = cls.__dict__.get(name, dataclasses.MISSING)
        factory: Any = dataclasses.MISSING
        if isinstance(default, dataclasses.Field):
            default, factory = default.default, default.default_factory
        if default is not dataclasses.MISSING:
            names[f"_of_{name}"] = default
            parameters.append(f"{name}=_of_{name}")
        elif factory is not dataclasses.MISSING:
            names[f"_of_{name}"] = factory
            parameters.append(f"{name}=_ABSENT")
            value = f"_of_{name}() if {name} is _ABSENT else {name}"
        else:
            parameters.append(name)
        values.append(f"{name}={value}")
    code = f"def __init__(self, {', '.join(parameters)}):\n self.__dict__.update({', '.join(values)})"
    if hasattr(cls, "__post_init__"):
        code += "\n self.__post_init__()"
    exec(code, names)  # noqa: S102 - as dataclasses does; the names are those of the class's fields
    cls.__init__ = names["__init__"]


_ABSENT: Any = object()
_ONE_AT_A_TIME = threading.RLock()
_OF_A_DATACLASS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "_compared")


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
