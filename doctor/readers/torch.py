"""What the installed torch says about flex_attention, read from its sources."""

from __future__ import annotations

import ast
import re

from flexdoctor.facts import Gate, Place, TorchFacts, Unread
from flexdoctor.readers.sources import (
    Definition,
    Verdict,
    constant,
    cut_function,
    line_of,
    line_text,
    string_constants,
)
from flexdoctor.readers.trees import Tree

GATE_FILE = "torch/nn/attention/flex_attention.py"
TRITON_FILE = "torch/utils/_triton.py"
COMPILE_FILE = "torch/_inductor/compile_fx.py"
SUBGRAPH_FILE = "torch/_inductor/subgraph_lowering.py"
#: Modules of torch that have taken has_triton by name in some release (2.5 to 2.15, read from the wheels).
HAS_TRITON_USERS = (
    "torch._dynamo.utils",
    "torch._inductor.compile_fx",
    "torch._inductor.runtime.autotune_cache",
    "torch._inductor.scheduler",
)
#: A device type is spelled like this in torch; everything else in quotes in the gate is prose.
_DEVICE = re.compile(r"[a-z][a-z0-9]{1,15}\Z")


def read_torch(tree: Tree, version: str) -> TorchFacts:
    """Return the facts of the torch below `tree`; `version` is that of its metadata."""
    own_version, cuda = _read_version(tree)
    text = tree.read(GATE_FILE)
    utils = tree.read(TRITON_FILE) or ""
    return TorchFacts(
        version=own_version or version,
        cuda=cuda,
        has_flex_attention=text is not None,
        gate=_read_gate(tree, text) if text is not None else None,
        major_comparison=_search(tree, TRITON_FILE, utils, r"get_device_properties\([^)]*\)\.major\s*[<>]=?\s*\d"),
        has_triton_bindings=_read_bindings(tree),
        capability_comparison=_search(
            tree, COMPILE_FILE, tree.read(COMPILE_FILE) or "", r"get_device_capability\([^)]*\)\s*[<>]=?\s*\("
        ),
        subgraph_error=_search(
            tree,
            SUBGRAPH_FILE,
            tree.read(SUBGRAPH_FILE) or "",
            r"Buffers cannot be created while lowering a pointwise",
        ),
        unread=_relevant(tree.unread),
    )


def _relevant(unread: tuple[Unread, ...]) -> tuple[Unread, ...]:
    return tuple(item for item in unread if "/torch/" in item.path)


def _read_version(tree: Tree) -> tuple[str | None, str | None]:
    text = tree.read("torch/version.py") or ""
    version = re.search(r"^__version__(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    cuda = re.search(r"^cuda(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return version and version[1], cuda and cuda[1]


def _search(tree: Tree, name: str, text: str, pattern: str) -> Place | None:
    match = re.search(pattern, text)
    if match is None:
        return None
    line = line_of(text, match.start())
    return tree.place(name, line, line_text(text, line))


def _read_bindings(tree: Tree) -> tuple[str, ...]:
    taken = re.compile(r"^from (?:torch\.|\.+)utils\._triton import .*\bhas_triton\b", re.MULTILINE)
    return tuple(
        module for module in HAS_TRITON_USERS if taken.search(tree.read(module.replace(".", "/") + ".py") or "")
    )


def _read_gate(tree: Tree, text: str) -> Gate:
    definition = cut_function(text, "_validate_device")
    if definition is None:
        if "_validate_device" in text or "def flex_attention" not in text:
            return Gate("unrecognised", tree.place(GATE_FILE))
        start = text.index("def flex_attention")
        line = line_of(text, start)
        return Gate("absent", tree.place(GATE_FILE, line, line_text(text, line)))
    where = tree.place(GATE_FILE, definition.first_line, line_text(text, definition.first_line))
    return judge_gate(definition, where)


def judge_gate(definition: Definition, where: Place) -> Gate:
    """Find out which device types a `_validate_device` lets through.

    The function is read as a list of tests that end in `raise ValueError`; each device type that it names, and
    "npu", is put to every test. A test that cannot be decided makes the whole gate unrecognised.
    """
    function = definition.node
    sets = {
        target.id: value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(target := node.targets[0], ast.Name)
        and (value := constant(node.value, {})) is not None
    }
    if _hands_over(function):
        return Gate("unrecognised", where)
    tests = [(node, _message(node)) for node in ast.walk(function) if isinstance(node, ast.If) and _refuses(node)]
    named = {text for node, _ in tests for text in string_constants(node.test) if _DEVICE.match(text)}
    named |= {item for value in sets.values() if isinstance(value, frozenset) for item in value}
    accepted, rejected, message = set[str](), set[str](), ""
    for device in sorted(named | {"npu"}):
        answers = [Verdict.of(node.test, {**sets, "device.type": device, "requires_grad": False}) for node, _ in tests]
        if None in answers and True not in answers:
            return Gate("unrecognised", where)
        if True in answers:
            rejected.add(device)
            message = tests[answers.index(True)][1] if device == "npu" else message
        else:
            accepted.add(device)
    return Gate("function", where, tuple(sorted(accepted)), tuple(sorted(rejected)), message)


def _hands_over(function: ast.FunctionDef) -> bool:
    """Tell whether the check may happen elsewhere: in a call that stands alone, or in a raise outside of any test."""
    calls = any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in ast.walk(function))
    return calls or any(isinstance(node, ast.Raise | ast.Assert) for node in function.body)


def _refuses(node: ast.If) -> bool:
    raised = next((item for item in node.body if isinstance(item, ast.Raise)), None)
    if raised is None or not isinstance(raised.exc, ast.Call):
        return False
    return isinstance(raised.exc.func, ast.Name) and raised.exc.func.id == "ValueError"


def _message(node: ast.If) -> str:
    raised = next(item for item in node.body if isinstance(item, ast.Raise))
    if not isinstance(raised.exc, ast.Call) or not raised.exc.args:
        return ""
    argument = raised.exc.args[0]
    if not isinstance(argument, ast.JoinedStr):
        return "".join(string_constants(argument))
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "npu" for part in argument.values)
