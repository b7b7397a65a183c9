"""How transformers loads an attention kernel from the Hub, read from its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from flexdoctor.facts import Place, Unread
from flexdoctor.hub_facts import CallSite, KernelVersion, TransformersHub
from flexdoctor.readers.sources import assignment, dotted, line_text, parse, string_constants
from flexdoctor.readers.trees import Tree

HUB_FILE = "transformers/integrations/hub_kernels.py"
FLASH_FILE = "transformers/modeling_flash_attention_utils.py"
IMPORT_FILE = "transformers/utils/import_utils.py"
MODEL_FILE = "transformers/modeling_utils.py"
_LOADERS = ("load_and_register_attn_kernel", "load_and_register_kernel")
#: Keywords of a call that stand in the call itself, beside what the signature filter lets through.
_SINKS = ("s_aux", "learnable_sink", "sink", "sinks")


def read_transformers(tree: Tree, version: str, requires: tuple[str, ...]) -> TransformersHub | None:
    """Return how the transformers below `tree` loads kernels, or None when it does not know Hub kernels."""
    hub = _Source.read(tree, HUB_FILE)
    flash = _Source.read(tree, FLASH_FILE)
    unread = tuple(item for item in tree.unread if "/transformers/" in item.path)
    unread += tuple(
        Unread(tree.place(name).path, "not Python that can be parsed")
        for name, source in ((HUB_FILE, hub), (FLASH_FILE, flash))
        if source is None and tree.read(name) is not None
    )
    bound = next((item for item in requires if item.lower().replace("_", "-").startswith("huggingface-hub")), None)
    if hub is None or flash is None:
        return TransformersHub(version, huggingface_hub=_specifier(bound), unread=unread) if unread else None
    loader = next((hub.functions[name] for name in _LOADERS if name in hub.functions), None)
    lazy = flash.functions.get("_lazy_imports")
    if loader is None or lazy is None:
        return None
    window, enforced, window_at = _window(tree, requires)
    names = _names_read(lazy)
    versions, default = _versions(hub, flash)
    process = flash.functions.get("_process_flash_attention_kwargs")
    unbound, unbound_at = _unbound(hub, loader)
    missing, plain_required = _missing(lazy)
    return TransformersHub(
        version=version,
        kernels_range=window,
        kernels_range_enforced=enforced,
        kernels_range_at=window_at,
        missing_kernels_error=_missing_kernels(hub, tree),
        loader_at=hub.place(loader),
        passes_version=any(
            isinstance(node, ast.Call)
            and dotted(node.func) == "get_kernel"
            and any(item.arg == "version" for item in node.keywords)
            for node in ast.walk(loader)
        ),
        versions=versions,
        default_version=default,
        fallbacks=tuple(_fallbacks(flash, tree)),
        plain=names.get("flash_attn_func", "flash_attn_func"),
        varlen=names.get("flash_attn_varlen_func", "flash_attn_varlen_func"),
        names_at=_names_at(flash, lazy),
        plain_required=plain_required,
        missing_error=missing,
        alternatives=tuple(_alternatives(loader)),
        unbound=unbound,
        unbound_at=unbound_at,
        plain_call=_call(flash, "flash_fn", process),
        varlen_call=_call(flash, "flash_varlen_fn", process),
        sink_names=_sinks(process),
        takes_npu_first=_npu_first(flash, lazy),
        checked_at_import=_checked_at_import(tree),
        huggingface_hub=_specifier(bound),
        unread=unread,
    )


@dataclass
class _Source:
    """One parsed file."""

    tree: Tree
    name: str
    text: str
    module: ast.Module
    functions: dict[str, ast.FunctionDef]

    @classmethod
    def read(cls, tree: Tree, name: str) -> _Source | None:
        text = tree.read(name)
        module = parse(text) if text is not None else None
        if text is None or module is None:
            return None
        functions = {item.name: item for item in ast.walk(module) if isinstance(item, ast.FunctionDef)}
        return cls(tree, name, text, module, functions)

    def place(self, node: ast.AST) -> Place:
        line = getattr(node, "lineno", 1)
        return self.tree.place(self.name, line, line_text(self.text, line))

    def assigned(self, name: str) -> ast.expr | None:
        for node in self.module.body:
            target, value = assignment(node)
            if target == name:
                return value
        return None


def _checked_at_import(tree: Tree) -> str | None:
    if '"huggingface-hub"' not in (tree.read("transformers/dependency_versions_check.py") or ""):
        return None
    table = tree.read("transformers/dependency_versions_table.py") or ""
    match = re.search(r'"huggingface-hub":\s*"([^"]+)"', table)
    return match[1] if match else None


def _specifier(requirement: str | None) -> str | None:
    if requirement is None:
        return None
    try:
        return str(Requirement(requirement).specifier) or None
    except InvalidRequirement:
        return None


def _window(tree: Tree, requires: tuple[str, ...]) -> tuple[str | None, bool, Place | None]:
    """Return the range of `kernels`: from the constants that the code compares with, else from the extra."""
    text = tree.read(IMPORT_FILE) or ""
    low = re.search(r"^KERNELS_MIN_VERSION(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    high = re.search(r"^KERNELS_MAX_VERSION(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    if low:
        line = text.count("\n", 0, low.start()) + 1
        span = f">={low[1]}" + (f",<{high[1]}" if high else "")
        return span, True, tree.place(IMPORT_FILE, line, line_text(text, line))
    for item in requires:
        try:
            requirement = Requirement(item)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "kernels" and requirement.specifier:
            return str(requirement.specifier), False, None
    return None, False, None


def _missing_kernels(hub: _Source, tree: Tree) -> str:
    """Return the message of the ImportError for `kernels` of a wrong version, constants filled in."""
    text = tree.read(IMPORT_FILE) or ""
    known = dict(re.findall(r"^(KERNELS_M\w+)\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE))
    node = hub.assigned("_MISSING_KERNELS_MESSAGE")
    if node is None:
        loader = next((hub.functions[name] for name in _LOADERS if name in hub.functions), None)
        raised = next((item for item in ast.walk(loader) if isinstance(item, ast.Raise)), None) if loader else None
        return f"ImportError: {_text(raised.exc.args[0], known)}" if raised and _has_text(raised) else ""  # type: ignore[union-attr]
    return f"ImportError: {_text(node, known)}"


def _has_text(node: ast.Raise) -> bool:
    return isinstance(node.exc, ast.Call) and bool(node.exc.args) and dotted(node.exc.func) == "ImportError"


def _text(node: ast.expr, known: dict[str, str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp):
        return _text(node.left, known) + _text(node.right, known)
    if not isinstance(node, ast.JoinedStr):
        return "…"
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            name = ast.unparse(part.value)
            parts.append(known.get(name, "{implementation}" if name == "implementation" else "…"))
    return "".join(parts)


def _names_read(lazy: ast.FunctionDef) -> dict[str, str]:
    """Map local names to the attributes that `getattr(kernel, "...", None)` reads for them."""
    return {
        target.id: str(node.value.args[1].value)
        for node in ast.walk(lazy)
        if isinstance(node, ast.Assign)
        and isinstance(target := node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func) == "getattr"
        and len(node.value.args) == 3
        and isinstance(node.value.args[1], ast.Constant)
    }


def _names_at(flash: _Source, lazy: ast.FunctionDef) -> Place | None:
    for node in ast.walk(lazy):
        if isinstance(node, ast.Call) and dotted(node.func) == "getattr":
            return flash.place(node)
    return None


def _missing(lazy: ast.FunctionDef) -> tuple[str, bool]:
    """Return the error for a kernel without the wanted functions, and whether the plain one counts."""
    for node in ast.walk(lazy):
        if not isinstance(node, ast.If):
            continue
        raised = next((item for item in node.body if isinstance(item, ast.Raise)), None)
        if raised is None or not isinstance(raised.exc, ast.Call) or not raised.exc.args:
            continue
        names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
        text = f"{dotted(raised.exc.func)}: {_text(raised.exc.args[0], {})}"
        return text, "flash_attn_func" in names
    return "", False


def _alternatives(loader: ast.FunctionDef) -> Iterator[str]:
    """Yield names by which a kernel without the varlen function is accepted all the same."""
    for node in ast.walk(loader):
        if isinstance(node, ast.Call) and dotted(node.func) == "hasattr" and len(node.args) == 2:
            if not isinstance(node.args[1], ast.Constant):
                continue
            name = str(node.args[1].value)
            if name not in ("flash_attn_varlen_func", "supports_flash_attn"):
                yield name


def _unbound(hub: _Source, loader: ast.FunctionDef) -> tuple[str | None, Place | None]:
    """Find the local that an if/elif chain without else may leave unbound, and the line that then fails."""
    for index, node in enumerate(loader.body):
        if not isinstance(node, ast.If) or "hasattr" not in ast.unparse(node.test):
            continue
        last: ast.If = node
        while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
        if last.orelse:
            return None, None
        bound = {
            target.id
            for item in ast.walk(last)
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }
        for later in loader.body[index + 1 :]:
            for name in ast.walk(later):
                if isinstance(name, ast.Name) and name.id in bound and isinstance(name.ctx, ast.Load):
                    return name.id, hub.place(name)
    return None, None


def _versions(hub: _Source, flash: _Source) -> tuple[tuple[KernelVersion, ...], int | None]:
    """Return which version of which kernel is loaded; a table by repository, or by the generation in its name."""
    default = None
    node = flash.assigned("FLASH_ATTN_KERNEL_VERSIONS")
    if isinstance(node, ast.Dict):
        getter = hub.functions.get("get_attn_kernel_version")
        for call in ast.walk(getter) if getter else ():
            if isinstance(call, ast.Call) and (dotted(call.func) or "").endswith(".get") and len(call.args) == 2:
                default = _integer(call.args[1])
        return tuple(_version_rows(node)), default
    default_node = hub.assigned("_DEFAULT_ATTN_KERNEL_VERSION")
    default = _integer(default_node) if default_node else None
    table = hub.assigned("_FLASH_ATTN_KERNEL_VERSION_MAPPING")
    rows = []
    if isinstance(table, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            generation, version = _integer(key), _integer(value)
            if generation is not None and version is not None:
                rows.append(KernelVersion(f"kernels-community/flash-attn{generation}", version))
    return tuple(rows), default


def _version_rows(table: ast.Dict) -> Iterator[KernelVersion]:
    for key, value in zip(table.keys, table.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            continue
        if isinstance(value, ast.IfExp):
            newer, older = _integer(value.body), _integer(value.orelse)
            torch = next((text for text in string_constants(value.test) if re.fullmatch(r"\d+\.\d+.*", text)), None)
            if newer is not None and torch is not None:
                yield KernelVersion(key.value, newer, torch, older)
        elif (version := _integer(value)) is not None:
            yield KernelVersion(key.value, version)


def _integer(node: ast.expr | None) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _fallbacks(flash: _Source, tree: Tree) -> Iterator[tuple[str, ...]]:
    """Yield (implementation, repository): what stands in for a flash attention that is not installed."""
    node = flash.assigned("FLASH_ATTN_KERNEL_FALLBACK")
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            # With a choice by platform, the last string is the one that is not for ROCm.
            repos = [text for text in string_constants(value) if "/" in text] if value else []
            if isinstance(key, ast.Constant) and repos:
                yield str(key.value), repos[-1]
        return
    for name in re.findall(r'applicable_attn_implementation = "([\w-]+/[\w.-]+)"', tree.read(MODEL_FILE) or ""):
        yield ("flash_attention_3" if "3" in name else "flash_attention_2"), name


def _call(flash: _Source, name: str, process: ast.FunctionDef | None) -> CallSite | None:
    """Describe the call of one of the loaded functions, with what the signature filter lets through."""
    forward = flash.functions.get("_flash_attention_forward")
    for node in ast.walk(forward) if forward else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            always, filtered = _keywords(process)
            return CallSite(
                function="_flash_attention_forward",
                place=flash.place(node),
                positional=len(node.args),
                keywords=(*(item.arg for item in node.keywords if item.arg), *always),
                filtered=filtered,
                use="either",
            )
    return None


def _keywords(process: ast.FunctionDef | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keywords that are always passed, and those that only go to a kernel which names them."""
    always, filtered = dict[str, None](), dict[str, None]()
    for node in ast.walk(process) if process else ():
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key in node.value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    always[key.value] = None
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id == "supports_mapping"
            and isinstance(node.slice, ast.Constant)
        ):
            filtered[str(node.slice.value)] = None
    return tuple(always), tuple(filtered)


def _sinks(process: ast.FunctionDef | None) -> tuple[str, ...]:
    _, filtered = _keywords(process)
    return tuple(name for name in filtered if name in _SINKS)


def _npu_first(flash: _Source, lazy: ast.FunctionDef) -> Place | None:
    """Return the line that takes torch_npu's own functions whatever kernel was named."""
    for node in ast.walk(lazy):
        if isinstance(node, ast.If) and "is_torch_npu_available" in ast.unparse(node.test):
            return flash.place(node)
    return None
