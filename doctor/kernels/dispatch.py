"""Calls an attention kernel by what it can do, not by what it is called.

The entry is found by capability, only what its signature names is passed, and the result is one tensor. What the kernel
cannot serve (a missing entry, packed sequences, a dtype) goes to scaled_dot_product_attention if the caller allows it;
what would change the mathematics when left out is an error in any case.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flexdoctor.kernels.capability import DESCRIPTIONS, Entry, KernelCapability

#: Left out, these give another result; the fallback does not know them either.
_MATHEMATICAL = ("window", "softcap", "dropout", "sinks")
#: What an argument is when nothing is asked of it.
_NEUTRAL: Mapping[str, Any] = {
    "causal": False,
    "deterministic": False,
    "dropout": 0.0,
    "sinks": None,
    "softcap": 0.0,
    "window": (-1, -1),
    "window_left": -1,
    "window_right": -1,
}


@dataclass(frozen=True)
class Refusal:
    """Why one kernel, or one entry of it, cannot serve a call."""

    kernel: str
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.entry}: {self.reason}" if self.entry else f"{self.kernel}: {self.reason}"


class KernelUnusableError(RuntimeError):
    """No kernel can serve the call; the text lists what was tried."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        tried = "\n".join(f"  {item}" for item in self.refusals) or "  no kernel was given"
        super().__init__(f"no attention kernel can serve this call; tried\n{tried}")


class MathChangedError(KernelUnusableError):
    """The call asks for something that the kernels do not take, and leaving it out would change the result."""


@dataclass(frozen=True)
class Call:
    """A call as it will be made: which function, with what, and which harmless wishes are left out."""

    kernel: str
    entry: Entry
    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    dropped: tuple[str, ...] = ()


class Dispatcher:
    """Attention over kernels, in the order in which they are given.

    Args:
        kernels: (name, module) pairs; the module is whatever `kernels.get_kernel` or an import gave.
        capabilities: descriptions by which the modules are entered.
        allow_fallback: let scaled_dot_product_attention serve what no kernel can.
    """

    def __init__(
        self,
        kernels: Sequence[tuple[str, object]],
        *,
        capabilities: Sequence[KernelCapability] = DESCRIPTIONS,
        allow_fallback: bool = False,
    ) -> None:
        self.kernels = tuple(kernels)
        self.capabilities = tuple(capabilities)
        self.allow_fallback = allow_fallback

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        sinks: Any = None,
        deterministic: bool | None = None,
    ) -> Any:
        """Return the attention of (batch, sequence, heads, head_dim) tensors as one tensor like `q`.

        Raises:
            MathChangedError: window, softcap, dropout or sinks are asked for and no kernel takes them.
            KernelUnusableError: no kernel can serve the call and the fallback is not allowed.
        """
        wishes = _wishes(scale, causal, window, softcap, dropout, sinks, deterministic)
        call, refusals = self._plan(q, k, v, wishes, packed=None)
        if call is None:
            self._refuse(refusals, wishes)
            return _reference(q, k, v, scale, causal)
        return _unpacked(self._run(call, q, v), call, q, v)

    def varlen(
        self,
        q: Any,
        k: Any,
        v: Any,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        max_seqlen_q: int,
        max_seqlen_k: int,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        sinks: Any = None,
        deterministic: bool | None = None,
    ) -> Any:
        """Return the attention of packed (tokens, heads, head_dim) tensors; errors as in a dense call."""
        wishes = _wishes(scale, causal, window, softcap, dropout, sinks, deterministic)
        packed = {
            "cu_seqlens_q": cu_seqlens_q,
            "cu_seqlens_k": cu_seqlens_k,
            "max_seqlen_q": max_seqlen_q,
            "max_seqlen_k": max_seqlen_k,
        }
        call, refusals = self._plan(q, k, v, wishes, packed)
        if call is None:
            self._refuse(refusals, wishes)
            return _reference_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, scale, causal)
        return self._run(call, q, v)

    def plan(self, q: Any, k: Any, v: Any, **wishes: Any) -> Call:
        """Return the dense call that would be made, without making it.

        Raises:
            KernelUnusableError: there is none.
        """
        call, refusals = self._plan(q, k, v, wishes, None)
        if call is None:
            raise KernelUnusableError(refusals)
        return call

    def _plan(
        self, q: Any, k: Any, v: Any, wishes: Mapping[str, Any], packed: Mapping[str, Any] | None
    ) -> tuple[Call | None, list[Refusal]]:
        refusals = list[Refusal]()
        for name, module in self.kernels:
            for capability in self.capabilities:
                for entry in capability.entries:
                    function = _resolve(module, entry.path)
                    if function is None:
                        refusals.append(Refusal(name, entry.path, "not there"))
                        continue
                    outcome = _call_for(name, capability, entry, function, (q, k, v), wishes, packed)
                    if isinstance(outcome, Call):
                        return outcome, refusals
                    refusals.append(outcome)
        return None, refusals

    def _refuse(self, refusals: list[Refusal], wishes: Mapping[str, Any]) -> None:
        """Raise, unless the fallback may and can serve the call."""
        mathematical = [name for name in _MATHEMATICAL if name in wishes]
        if mathematical:
            lost = [Refusal("scaled_dot_product_attention", "", f"does not know {name}") for name in mathematical]
            raise MathChangedError([*refusals, *lost])
        if not self.allow_fallback:
            raise KernelUnusableError(
                [*refusals, Refusal("scaled_dot_product_attention", "", "the caller does not allow it")]
            )

    def _run(self, call: Call, q: Any, v: Any) -> Any:
        result = call.function(*call.args, **call.keywords)
        capability = next(item for item in self.capabilities if call.entry in item.entries)
        if isinstance(result, tuple | list):
            if not result:
                raise KernelUnusableError([Refusal(call.kernel, call.entry.path, "it returned nothing")])
            result = result[0] if capability.returns == "first" else result[-1]
        if call.entry.layout == "BHSD":
            result = result.transpose(1, 2)
        packed_dense = call.entry.varlen and len(q.shape) == 4
        wanted = (q.shape[0] * q.shape[1], q.shape[2]) if packed_dense else tuple(q.shape[:-1])
        if tuple(result.shape) != (*wanted, v.shape[-1]):
            found = "x".join(map(str, result.shape))
            raise KernelUnusableError([Refusal(call.kernel, call.entry.path, f"it returned a tensor of shape {found}")])
        return result


def _wishes(
    scale: float | None,
    causal: bool,
    window: tuple[int, int] | None,
    softcap: float | None,
    dropout: float,
    sinks: Any,
    deterministic: bool | None,
) -> dict[str, Any]:
    """Return what differs from plain attention: only that has to be understood by a kernel."""
    wishes: dict[str, Any] = {}
    if scale is not None:
        wishes["scale"] = scale
    if causal:
        wishes["causal"] = True
    if window is not None and tuple(window) not in ((-1, -1), (None, None)):
        wishes["window"] = tuple(window)
    if softcap:
        wishes["softcap"] = softcap
    if dropout:
        wishes["dropout"] = dropout
    if sinks is not None:
        wishes["sinks"] = sinks
    if deterministic is not None:
        wishes["deterministic"] = deterministic
    return wishes


def _resolve(module: object, path: str) -> Callable[..., Any] | None:
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part, None)
        if target is None:
            return None
    return target if callable(target) else None


def _call_for(
    name: str,
    capability: KernelCapability,
    entry: Entry,
    function: Callable[..., Any],
    tensors: tuple[Any, Any, Any],
    wishes: Mapping[str, Any],
    packed: Mapping[str, Any] | None,
) -> Call | Refusal:
    """Fit a call to one entry, or say why it cannot be."""
    q, k, v = tensors
    dtype = str(q.dtype).removeprefix("torch.")
    if capability.dtypes and dtype not in capability.dtypes:
        return Refusal(name, entry.path, f"takes {' and '.join(capability.dtypes)}, not {dtype}")
    if packed is not None and not entry.varlen:
        return Refusal(name, entry.path, "does not take packed sequences")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return Refusal(name, entry.path, "has no signature that can be read, so what it takes is not known")
    values: dict[str, Any] = {}
    if entry.varlen and packed is None:
        q, k, v, packed = _pack(q, k, v)
    elif entry.layout == "BHSD":
        q, k, v = (item.transpose(1, 2) for item in (q, k, v))
    values.update({"q": q, "k": k, "v": v, **(packed or {})})
    if entry.layout_name is not None:
        values["layout"] = entry.layout_name
    values.update(wishes)
    return _bind(name, capability, entry, function, parameters, values)


def _bind(
    name: str,
    capability: KernelCapability,
    entry: Entry,
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    values: Mapping[str, Any],
) -> Call | Refusal:
    named, dropped, left_out = {}, [], []
    for wish, value in values.items():
        spelled = _spell(wish, value, capability.spellings, parameters)
        if spelled is not None:
            named.update(spelled)
        elif wish in ("q", "k", "v"):
            continue  # by position, below
        elif wish == "scale" and _is_default_scale(value, values["q"]):
            continue
        elif wish in ("deterministic", "layout", "max_seqlen_q", "max_seqlen_k"):
            dropped.append(wish)
        else:
            left_out.append(wish)
    if left_out:
        return Refusal(name, entry.path, f"does not take {', '.join(left_out)}")
    named.update(_neutral(capability, parameters, named, values["q"]))
    queue = [values[item] for item in ("q", "k", "v") if not _spell(item, None, capability.spellings, parameters)]
    args, queue = _positional(parameters, named, queue)
    if queue:
        return Refusal(name, entry.path, "does not take q, k and v")
    try:
        inspect.Signature(list(parameters.values())).bind(*args, **named)
    except TypeError as error:
        return Refusal(name, entry.path, str(error))
    return Call(name, entry, function, tuple(args), named, tuple(dropped))


def _positional(
    parameters: Mapping[str, inspect.Parameter], named: dict[str, Any], queue: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Take out of `named` what can only go by position; return the positional part and what found no place in it."""
    only = [item for item in parameters.values() if item.kind is item.POSITIONAL_ONLY]
    last = max((number for number, item in enumerate(only) if item.name in named), default=-1)
    args = []
    for number, parameter in enumerate(only):
        if parameter.name in named:
            args.append(named.pop(parameter.name))
        elif queue:
            args.append(queue.pop(0))
        elif number < last and parameter.default is not parameter.empty:
            args.append(parameter.default)  # a gap before one that is wanted
        else:
            break
    if len(args) == len(only):
        for parameter in parameters.values():
            if queue and parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name not in named:
                args.append(queue.pop(0))
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                break
            elif queue and parameter.kind is parameter.VAR_POSITIONAL:
                args += queue
                queue = []
    return args, queue


def _spell(
    wish: str, value: Any, spellings: Mapping[str, tuple[str, ...]], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any] | None:
    """Return `value` under the kernel's own name for it; `**kwargs` names nothing, it may swallow anything."""

    def find(name: str) -> str | None:
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return next(
            (
                item
                for item in spellings.get(name, (name,))
                if item in parameters and parameters[item].kind not in kinds
            ),
            None,
        )

    if wish == "window" and value is not None:
        left, right = find("window_left"), find("window_right")
        if (whole := find("window")) is None:
            return {left: value[0], right: value[1]} if left and right else None
        # Some write "no limit" as -1, some as None; the default shows which.
        default = parameters[whole].default
        if isinstance(default, tuple) and None in default:
            value = tuple(None if item == -1 else item for item in value)
        return {whole: value}
    own = find(wish)
    return None if own is None else {own: value}


def _neutral(
    capability: KernelCapability, parameters: Mapping[str, inspect.Parameter], named: Mapping[str, Any], q: Any
) -> dict[str, Any]:
    """Return what plain attention means for arguments that a kernel insists on and nobody asked for."""
    plain = {**_NEUTRAL, "scale": q.shape[-1] ** -0.5}
    found = {}
    for parameter in parameters.values():
        if parameter.default is not parameter.empty or parameter.name in named:
            continue
        for wish, value in plain.items():
            if parameter.name in capability.spellings.get(wish, ()):
                found[parameter.name] = value
    return found


def _torch() -> Any:
    """Return torch, which whoever has tensors has already imported."""
    return importlib.import_module("torch")


def _is_default_scale(scale: float, q: Any) -> bool:
    return bool(abs(float(scale) - q.shape[-1] ** -0.5) < 1e-9)


def _pack(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Write a dense batch as packed sequences of one length."""
    torch = _torch()

    def offsets(tensor: Any) -> Any:
        batch, length = tensor.shape[:2]
        return torch.arange(0, (batch + 1) * length, length, dtype=torch.int32, device=tensor.device)

    packed = {
        "cu_seqlens_q": offsets(q),
        "cu_seqlens_k": offsets(k),
        "max_seqlen_q": q.shape[1],
        "max_seqlen_k": k.shape[1],
    }
    q, k, v = (item.flatten(0, 1) for item in (q, k, v))
    return q, k, v, packed


def _unpacked(result: Any, call: Call, q: Any, v: Any) -> Any:
    return result.reshape(*q.shape[:-1], v.shape[-1]) if call.entry.varlen else result


def _reference(q: Any, k: Any, v: Any, scale: float | None, causal: bool) -> Any:
    torch = _torch()

    length_q, length_k = q.shape[1], k.shape[1]
    mask = None
    if causal and length_q != length_k:
        # The last query sees all keys, as in every flash attention; is_causal would align the first ones.
        mask = torch.ones(length_q, length_k, dtype=torch.bool, device=q.device).tril(length_k - length_q)
    q, k, v = (item.transpose(1, 2) for item in (q, k, v))
    if q.shape[1] != k.shape[1]:
        repeats = q.shape[1] // k.shape[1]
        k, v = (item.repeat_interleave(repeats, dim=1) for item in (k, v))
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal and mask is None, scale=scale
    )
    if mask is not None and length_q > length_k:
        out = out.nan_to_num(0.0)  # queries before the first key see nothing
    return out.transpose(1, 2)


def _reference_packed(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, scale: float | None, causal: bool) -> Any:
    torch = _torch()

    bounds_q, bounds_k = [int(item) for item in cu_q], [int(item) for item in cu_k]
    parts = []
    for number in range(len(bounds_q) - 1):
        own_q = slice(bounds_q[number], bounds_q[number + 1])
        own_k = slice(bounds_k[number], bounds_k[number + 1])
        parts.append(_reference(q[own_q][None], k[own_k][None], v[own_k][None], scale, causal)[0])
    return torch.cat(parts)
