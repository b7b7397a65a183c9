"""Whether a call fits a function, a result fits what is made of it, and a build variant fits this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from packaging.version import InvalidVersion, Version

from flexdoctor.frozen import dataclass
from flexdoctor.hub_facts import CallSite, KernelFunction, Parameter, Variant

Fit = Literal["match", "mismatch", "only with lse", "cannot tell"]


@dataclass(frozen=True)
class ResultFit:
    """How a result meets its caller: `error` is the exception, "" when it goes wrong without one."""

    fit: Fit
    error: str = ""
    silent: bool = False


def call_error(function: KernelFunction, call: CallSite) -> str | None:
    """Return the TypeError with which Python refuses this call, None when it takes it.

    Python looks at keywords in the order in which they are written, then at the number of positional arguments, then
    at what is missing; the first complaint is the one that the user sees.
    """
    name = function.path.rpartition(".")[2]
    parameters = function.parameters
    positional = [item for item in parameters if item.kind in ("positional", "either")]
    filled = {item.name for item in positional[: call.positional]}
    passed = (*call.keywords, *(word for word in call.filtered if function.parameter(word)))
    swallows = any(item.kind == "kwargs" for item in parameters)
    by_name = {item.name for item in parameters if item.kind in ("either", "keyword")}
    for word in passed:
        if word in by_name:
            if word in filled:
                return f"TypeError: {name}() got multiple values for argument '{word}'"
        elif not swallows:
            return f"TypeError: {name}() got an unexpected keyword argument '{word}'"
    if call.positional > len(positional) and not any(item.kind == "args" for item in parameters):
        return _too_many(name, positional, parameters, call.positional, passed)
    missing = [item.name for item in positional[call.positional :] if item.default is None and item.name not in passed]
    if missing:
        return f"TypeError: {name}() missing {_counted(missing, 'positional')}"
    missing = [i.name for i in parameters if i.kind == "keyword" and i.default is None and i.name not in passed]
    return f"TypeError: {name}() missing {_counted(missing, 'keyword-only')}" if missing else None


def _counted(names: list[str], kind: str) -> str:
    return f"{len(names)} required {kind} {_plural('argument', len(names))}: {_listed(names)}"


def _too_many(
    name: str, positional: Sequence[Parameter], parameters: Sequence[Parameter], given: int, passed: Iterable[str]
) -> str:
    required = sum(item.default is None for item in positional)
    takes = f"{len(positional)}" if required == len(positional) else f"from {required} to {len(positional)}"
    plural = "" if len(positional) == 1 and required == len(positional) else "s"
    only = {item.name for item in parameters if item.kind == "keyword"}
    extra = sum(word in only for word in passed)
    if extra:
        return (
            f"TypeError: {name}() takes {takes} positional argument{plural} but {given} positional "
            f"{_plural('argument', given)} (and {extra} keyword-only {_plural('argument', extra)}) were given"
        )
    verb = "was" if given == 1 else "were"
    return f"TypeError: {name}() takes {takes} positional argument{plural} but {given} {verb} given"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) <= 2:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def result_fit(function: KernelFunction, call: CallSite) -> ResultFit:
    """Compare what a function hands back with what its caller makes of it."""
    if call.use in ("either", "ignored"):
        return ResultFit("match")
    if call.use == "unrecognised" or function.gives == "opaque":
        return ResultFit("cannot tell")
    gives = function.gives
    switched = call.flag is not None and call.flag in function.flags
    if gives == "by flag" and not switched:
        # The caller does not touch the switch: what it gets is a tensor, unless it passes one of the others.
        if set(function.flags) & set(call.keywords):
            return ResultFit("cannot tell")
        if any(
            (function.parameter(flag) or Parameter(flag)).default not in ("False", "None") for flag in function.flags
        ):
            return ResultFit("cannot tell")
        gives = "tensor"
    if call.use == "tensor":
        return _as_tensor(gives, call)
    if call.use == "tuple":
        return _as_tuple(gives, function, call)
    return _as_switched(gives, call)


def _as_tensor(gives: str, call: CallSite) -> ResultFit:
    if gives == "tensor":
        return ResultFit("match")
    error = _no_method(call)
    return ResultFit("only with lse" if gives == "by flag" else "mismatch", error, silent=not error)


def _as_tuple(gives: str, function: KernelFunction, call: CallSite) -> ResultFit:
    wanted = call.unpacks or 0
    if gives == "tensor":
        # A tensor is taken apart along its first dimension: rows in place of a result, without any error.
        error = f"ValueError: too many values to unpack (expected {wanted})" if call.unpacks_exactly else ""
        return ResultFit("mismatch", error, silent=not call.unpacks_exactly)
    if gives == "by flag":
        return ResultFit("cannot tell")
    if function.length is None:
        return ResultFit("match" if not call.unpacks_exactly else "cannot tell")
    if function.length < wanted:
        expected = f"expected {wanted}" if call.unpacks_exactly else f"expected at least {wanted}"
        return ResultFit("mismatch", f"ValueError: not enough values to unpack ({expected}, got {function.length})")
    if call.unpacks_exactly and function.length > wanted:
        return ResultFit("mismatch", f"ValueError: too many values to unpack (expected {wanted})")
    return ResultFit("match")


def _as_switched(gives: str, call: CallSite) -> ResultFit:
    if gives == "by flag":
        return ResultFit("match")
    if gives == "tuple":
        # With the switch off a tuple goes where a tensor is expected.
        error = _no_method(call)
        return ResultFit("mismatch", error, silent=not error)
    # The switch changes nothing: with it on, a tensor is taken apart row by row.
    return ResultFit("only with lse", silent=True)


def _no_method(call: CallSite) -> str:
    return f"AttributeError: 'tuple' object has no attribute '{call.method}'" if call.method else ""


@dataclass(frozen=True)
class Machine:
    """What build variants are chosen by; None where it is not known."""

    torch: str | None = None
    cxx11_abi: bool | None = None
    backend: str | None = None
    backend_version: str | None = None
    architecture: str | None = None
    system: str | None = "linux"
    knows_stable_abi: bool | None = None


def misfit(variant: Variant, machine: Machine) -> str | None:
    """Return why a variant does not fit, "" when it does, None when that cannot be told."""
    if variant.kind == "unrecognised":
        return f"{variant.name}: not a name that kernels knows"
    if variant.kind == "noarch":
        backend = "npu" if machine.backend == "cann" else machine.backend
        if variant.backend == "universal":
            return ""
        return (
            None
            if backend is None
            else ""
            if variant.backend == backend
            else f"{variant.name}: built for {variant.backend}"
        )
    reasons = (_wrong_place(variant, machine), _wrong_torch(variant, machine), _wrong_backend(variant, machine))
    decided = next((reason for reason in reasons if reason), None)
    if decided:
        return decided
    return None if None in reasons else ""


def _wrong_place(variant: Variant, machine: Machine) -> str | None:
    if machine.system is not None and variant.system != machine.system:
        return f"{variant.name}: built for {variant.system}"
    if machine.architecture is None:
        return None
    return "" if variant.architecture == machine.architecture else f"{variant.name}: built for {variant.architecture}"


def _wrong_torch(variant: Variant, machine: Machine) -> str | None:
    if variant.kind == "tvm-ffi" or machine.torch is None or variant.torch is None:
        return None
    here, there = _short(machine.torch), _short(variant.torch)
    if here is None or there is None:
        return None
    if variant.kind == "stable":
        if machine.knows_stable_abi is False:
            return f"{variant.name}: this kernels does not know the stable ABI"
        return "" if there <= here else f"{variant.name}: needs torch {variant.torch} or newer"
    if here != there:
        return f"{variant.name}: built for torch {variant.torch}"
    if variant.cxx11_abi is not None and machine.cxx11_abi is not None and variant.cxx11_abi != machine.cxx11_abi:
        return f"{variant.name}: built for the other C++ ABI"
    return ""


def _wrong_backend(variant: Variant, machine: Machine) -> str | None:
    if machine.backend is None:
        return None
    if variant.backend != machine.backend:
        return f"{variant.name}: built for {variant.backend}"
    if variant.backend == "cpu":
        return ""
    here, there = _short(machine.backend_version or ""), _short(variant.backend_version or "")
    if here is None or there is None:
        return None
    # CUDA takes an older minor; everything else only the very same version.
    fits = here[0] == there[0] and there[1] <= here[1] if variant.backend == "cuda" else here == there
    return "" if fits else f"{variant.name}: built for {variant.backend} {variant.backend_version}"


def _short(text: str) -> tuple[int, int] | None:
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    return version.major, version.minor
