"""The dispatcher against kernels that only record: what is passed, what is refused, what comes back.

The tensors here are stand-ins with shape and dtype, so that this runs without torch; tests/real has the real ones.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexdoctor.kernels import (
    SPELLINGS,
    Call,
    Dispatcher,
    Entry,
    KernelCapability,
    KernelUnusableError,
    MathChangedError,
)


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str = "torch.float16"
    history: tuple[str, ...] = field(default=())

    def transpose(self, first: int, second: int) -> Tensor:
        shape = list(self.shape)
        shape[first], shape[second] = shape[second], shape[first]
        return Tensor(tuple(shape), self.dtype, (*self.history, "transposed"))


Q = Tensor((2, 16, 4, 64))
K = Tensor((2, 16, 4, 64))
V = Tensor((2, 16, 4, 64))
OUT = Tensor((2, 16, 4, 64), history=("out",))


def kernel(**functions: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**functions)


def run(function: Any, name: str = "flash_attn_func", **wishes: Any) -> Any:
    return Dispatcher([("k", kernel(**{name: function}))])(Q, K, V, **wishes)


def test_importable_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import flexdoctor.kernels; print(flexdoctor.kernels.__all__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Dispatcher" in result.stdout


def test_plain_call_passes_nothing_that_was_not_asked_for() -> None:
    seen: list[dict[str, Any]] = []

    def flash_attn_func(q: Any, k: Any, v: Any, softmax_scale: Any = None, causal: Any = False, **kwargs: Any) -> Any:
        seen.append({"scale": softmax_scale, "causal": causal, **kwargs})
        return OUT

    assert run(flash_attn_func) is OUT
    assert seen == [{"scale": None, "causal": False}]


def test_every_spelling_of_an_argument_is_found() -> None:
    def sageattn(
        q: Any, k: Any, v: Any, tensor_layout: str = "HND", is_causal: Any = False, sm_scale: Any = None
    ) -> Any:
        assert (tensor_layout, is_causal, sm_scale) == ("NHD", True, 0.5)
        return OUT

    assert run(sageattn, "sageattn", causal=True, scale=0.5) is OUT


def test_a_tuple_becomes_its_first_tensor() -> None:
    assert run(lambda q, k, v: (OUT, Tensor((2, 4, 16)))) is OUT


def test_rows_of_a_tensor_are_not_taken_for_a_result() -> None:
    with pytest.raises(KernelUnusableError, match="returned a tensor of shape 16x4x64"):
        run(lambda q, k, v: Tensor((16, 4, 64)))


@pytest.mark.parametrize(
    ("wish", "value"), [("softcap", 30.0), ("window", (128, 0)), ("dropout", 0.1), ("sinks", Tensor((4,)))]
)
def test_dropping_what_changes_the_mathematics_is_an_error_even_where_the_fallback_is_allowed(
    wish: str, value: Any
) -> None:
    poor = kernel(flash_attn_func=lambda q, k, v, causal=False, **kwargs: OUT)
    with pytest.raises(MathChangedError, match=f"does not take {wish}"):
        Dispatcher([("poor", poor)], allow_fallback=True)(Q, K, V, **{wish: value})


def test_neutral_values_ask_for_nothing() -> None:
    assert run(lambda q, k, v: OUT, window=(-1, -1), softcap=0.0, dropout=0.0, scale=64**-0.5) is OUT


def test_a_harmless_wish_is_left_out_and_said() -> None:
    call = Dispatcher([("k", kernel(flash_attn_func=lambda q, k, v: OUT))]).plan(Q, K, V, deterministic=True)
    assert call.dropped == ("deterministic",)


def test_no_limit_is_written_as_the_kernel_writes_it() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, window_size: Any = (None, None)) -> Any:
        assert window_size == (128, None)
        return OUT

    assert run(flash_attn_func, window=(128, -1)) is OUT


def test_arguments_that_a_kernel_insists_on_get_their_plain_meaning() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float, softmax_scale: float, causal: bool) -> Any:
        assert (dropout_p, softmax_scale, causal) == (0.0, 0.125, False)
        return OUT

    assert run(flash_attn_func) is OUT


def test_the_error_lists_what_was_tried() -> None:
    dispatcher = Dispatcher([("empty", kernel()), ("half", kernel(flash_attn_func=lambda q, k, v: OUT))])
    with pytest.raises(KernelUnusableError) as caught:
        dispatcher(Tensor((1, 4, 2, 64), "torch.float32"), K, V)
    text = str(caught.value)
    assert "empty: flash_attn_func: not there" in text
    assert "half: flash_attn_func: takes float16 and bfloat16, not float32" in text
    assert "the caller does not allow it" in text


def test_the_next_kernel_serves_what_the_first_cannot() -> None:
    second = kernel(flash_attn_func=lambda q, k, v, softcap=0.0: OUT)
    call = Dispatcher([("poor", kernel(flash_attn_func=lambda q, k, v: OUT)), ("rich", second)]).plan(
        Q, K, V, softcap=30.0
    )
    assert call.kernel == "rich"
    assert call.keywords["softcap"] == 30.0


def test_what_has_no_signature_is_refused_not_guessed() -> None:
    with pytest.raises(KernelUnusableError, match="no signature"):
        run(_Opaque())


class _Opaque:
    """Callable, as a compiled operator is, without anything that tells its arguments."""

    __signature__ = "none"

    def __call__(self, *args: Any) -> Any:
        return OUT


def test_a_new_kernel_needs_one_description() -> None:
    described = KernelCapability("new", (Entry("ops.attend", layout="BHSD"),), returns="last")
    module = kernel(ops=kernel(attend=lambda query, key, value: (None, Tensor((2, 4, 16, 64)))))
    result = Dispatcher([("new", module)], capabilities=[described])(Q, K, V)
    assert result.shape == (2, 16, 4, 64)


NAMES = sorted({name for group in SPELLINGS.values() for name in group} | {"alibi_slopes", "block_table", "config"})


@st.composite
def signatures(draw: st.DrawFn) -> inspect.Signature:
    """Signatures of every kind: any order, any defaults, any of Python's kinds of parameters."""
    kinds = inspect.Parameter
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=10))
    head = draw(st.sampled_from([["q", "k", "v"], ["query", "key", "value"], [], ["q"]]))
    names = [*head, *(name for name in names if name not in head)]
    parameters, defaulted = list[inspect.Parameter](), False
    kind: Any = kinds.POSITIONAL_ONLY
    for name in names:
        order = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        kind = draw(st.sampled_from([item for item in order if item >= kind]))
        defaulted = draw(st.booleans()) or (defaulted and kind is not kinds.KEYWORD_ONLY)
        parameters.append(inspect.Parameter(name, kind, default=None if defaulted else kinds.empty))
    if draw(st.booleans()):
        parameters.append(inspect.Parameter("kwargs", kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


@given(
    signatures(),
    st.fixed_dictionaries(
        {},
        optional={
            "scale": st.just(0.3),
            "causal": st.just(True),
            "window": st.just((4, 0)),
            "softcap": st.just(9.0),
            "dropout": st.just(0.5),
            "deterministic": st.booleans(),
        },
    ),
)
def test_a_kernel_is_never_called_with_what_it_does_not_take(
    signature: inspect.Signature, wishes: dict[str, Any]
) -> None:
    calls: list[dict[str, Any]] = []

    def flash_attn_func(*args: Any, **keywords: Any) -> Any:
        named = {name for name, item in signature.parameters.items() if item.kind is not item.VAR_KEYWORD}
        assert set(keywords) <= named, "an argument that only **kwargs would swallow"
        calls.append(dict(signature.bind(*args, **keywords).arguments))
        return OUT

    flash_attn_func.__signature__ = signature  # type: ignore[attr-defined]
    try:
        result = run(flash_attn_func, **wishes)
    except KernelUnusableError:
        assert not calls
        return
    assert result is OUT
    (arguments,) = calls
    taken = [item for item in arguments.values() if isinstance(item, Tensor)]
    assert taken == [Q, K, V]
    for wish, value in wishes.items():
        spelled = [name for name in SPELLINGS[wish] if name in arguments]
        if wish not in ("deterministic", "window"):
            assert [arguments[name] for name in spelled[:1]] == [value]


def test_a_plan_says_what_will_be_called() -> None:
    call = Dispatcher([("k", kernel(flash_attn_func=lambda q, k, v, causal=False: OUT))]).plan(Q, K, V, causal=True)
    assert isinstance(call, Call)
    assert (call.kernel, call.entry.path) == ("k", "flash_attn_func")
    assert dict(call.keywords) == {"q": Q, "k": K, "v": V, "causal": True}
