"""What the installed torch-npu replaces in torch, which triton names it needs, and which flex lowering it brings."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Literal

from flexdoctor.facts import ExtraStep, FlexLowering, LoadImport, Patch, PatchTime, Place, TorchNpuFacts
from flexdoctor.readers.sources import (
    attribute_assignments,
    cut_function,
    dotted,
    import_aliases,
    line_of,
    line_text,
    line_text_raw,
    parse,
    parse_around,
    resolve,
)
from flexdoctor.readers.trees import Tree

GATE_MODULE = "torch.nn.attention.flex_attention"
FLEX_FILE = "torch_npu/_inductor/kernel/flex_attention.py"
INDUCTOR = "torch_npu/_inductor/"
#: What holds no patch of torch's eager or default-inductor path: graph engine, profiler, test helpers, the inductor
#: backends that are not the default one, the texts of docstrings, and the shapes of operators' results.
SKIPPED = frozenset(
    f"torch_npu/{name}"
    for name in (
        "_inductor/ascend_npu_ir",
        "_inductor/ascendc",
        "_inductor/dvm",
        "_inductor/triton_experimental",
        "_op_plugin_docs.py",
        "dynamo",
        "include",
        "onnx",
        "op_plugin/meta",
        "profiler",
        "testing",
    )
)
_OWN_MODULES = ("torch", "torch_npu", "triton")
#: Dots, module and names of `from ... import`, or the modules of `import`.
_IMPORT = re.compile(
    r"[ \t]*(?:from (\.*)([\w.]*) import\b([ \t]*\([^)]*|(?:\\\n|[^\n])*)|import ([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*))"
)
#: Characters from the bracket of an import to its last name: further back nobody looks, however often a word stands.
_LONGEST_IMPORT = 4096
_OTHER_BACKENDS = re.compile(r"mlir|dvm|ascendc|experimental|aoti")


def read_torch_npu(tree: Tree, version: str) -> TorchNpuFacts:
    """Return the facts of the torch_npu below `tree`; `version` is that of its metadata."""
    texts = {name: text for name in tree.sources("torch_npu", SKIPPED) if (text := tree.read(name)) is not None}
    own = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", texts.get("torch_npu/version.py", ""), re.MULTILINE)
    when = functools.cache(lambda name: _when(tree, texts, name))
    kernel_module, names, kernel_imports_at = _read_kernel_imports(tree, texts)
    return TorchNpuFacts(
        version=own[1] if own else version,
        has_inductor=tree.exists("torch_npu/_inductor/__init__.py"),
        gate_patches=_read_patches(tree, texts, "_validate_device", GATE_MODULE, when),
        has_triton_patches=_read_patches(tree, texts, "has_triton", "torch.", when),
        extra_steps=tuple(_read_extra_steps(tree, texts, kernel_module)),
        kernel_imports=names,
        kernel_imports_at=kernel_imports_at,
        lowering=_read_lowering(tree, texts),
        lowering_policy=_read_policy(texts),
        imports=tuple(_read_imports(tree, texts)),
        unread=tuple(item for item in tree.unread if "/torch_npu/" in item.path),
    )


def _read_patches(
    tree: Tree,
    texts: Mapping[str, str],
    attribute: str,
    owner: str,
    when_of: Callable[[str], tuple[PatchTime, Place | None]],
) -> tuple[Patch, ...]:
    """Find assignments that replace `attribute` of a module whose dotted name starts with `owner`.

    torch-npu also has functions of its own of these names, so the assignment's target decides, never the name.
    """
    found = []
    # What a pattern begins with is looked for far faster than what stands behind an alternative.
    written = re.compile(rf"{attribute}(?:\s*=[^=]|['\"])")
    for name, text in texts.items():
        if attribute not in text or not any(text[match.start() - 1] in ".'\"" for match in written.finditer(text)):
            continue
        if (module := parse_around(text, attribute)) is None:
            continue
        for assignment in attribute_assignments(text, module, attribute):
            target = assignment.target.rpartition(".")[0]
            # A module handed in as an argument cannot be resolved; its name in quotes beside it tells (an import hook).
            if "." not in target and f'"{GATE_MODULE}"' in text and owner == GATE_MODULE:
                target = GATE_MODULE
            if not target.startswith(owner):
                continue
            when, via = when_of(name)
            place = tree.place(name, assignment.line, line_text(text, assignment.line))
            found.append(Patch(target, when, place, via))
    return tuple(sorted(found, key=lambda patch: (patch.when, patch.place.path, patch.place.line or 0)))


def _when(tree: Tree, texts: Mapping[str, str], name: str) -> tuple[PatchTime, Place | None]:
    """Tell when the code of a torch-npu source file gets to run, and which import makes it run.

    The inductor backend is loaded by a call inside a function, long after import; only an import in column 0 of the
    start-up modules would make it part of `import torch_npu`.
    """
    if name.startswith("torch_npu/contrib/"):
        return "transfer_to_npu", None
    start_up = {other: text for other, text in texts.items() if _is_start_up(other)}
    if name.startswith(INDUCTOR):
        for importer, line in _importers(start_up, f"{INDUCTOR}__init__.py"):
            source = line_text_raw(texts[importer], line)
            if not source.startswith((" ", "\t")):
                return "import", tree.place(importer, line, source)
        return "inductor_load", None
    if _is_start_up(name):
        return "import", None
    seen, queue = {name}, [name]
    while queue:
        current = queue.pop(0)
        # Most patches are applied by a start-up module itself; only else is the whole package searched.
        for importer, line in _importers(start_up, current):
            return "import", tree.place(importer, line, line_text(texts[importer], line))
        for importer, _ in _importers(texts, current):
            if importer not in seen:
                seen.add(importer)
                queue.append(importer)
    return "unrecognised", None


def _is_start_up(name: str) -> bool:
    return name == "torch_npu/__init__.py" or name.startswith("torch_npu/_init/")


def _importers(texts: Mapping[str, str], name: str) -> Iterator[tuple[str, int]]:
    """Yield the files that import the module of `name`, with the line of the import."""
    path = PurePosixPath(name)
    module = str(path.parent if path.name == "__init__.py" else path.with_suffix("")).replace("/", ".")
    stem = module.rpartition(".")[2]
    for other, text in texts.items():
        if other == name:
            continue
        position = text.find(stem)
        while position != -1:
            written = _import_at(text, position)
            if written and any(f"{item}.".startswith(f"{module}.") for item in _imported(written, other)):
                yield other, line_of(text, written.start())
                break
            position = text.find(stem, position + len(stem))


def _import_at(text: str, position: int) -> re.Match[str] | None:
    """Return the import statement in which a word stands, None where it stands in none."""
    start = text.rfind("\n", 0, position) + 1
    while text.endswith("\\\n", 0, start):
        start = text.rfind("\n", 0, start - 1) + 1
    if written := _IMPORT.match(text, start):
        return written
    opened = text.rfind("import (", max(position - _LONGEST_IMPORT, 0), position)
    if opened == -1 or text.find(")", opened, position) != -1:
        return None
    return _IMPORT.match(text, text.rfind("\n", 0, opened) + 1)


def _imported(written: re.Match[str], importer: str) -> Iterator[str]:
    """Yield the dotted names that an import statement in the file `importer` takes in, modules or not."""
    if written[4]:
        yield from re.findall(r"[\w.]+", written[4])
        return
    package = importer.split("/")[:-1]
    base = package[: len(package) + 1 - len(written[1])] if written[1] else []
    module = ".".join([*base, *filter(None, written[2].split("."))])
    yield module
    for item in re.findall(r"(\w+)(?:\s+as\s+\w+)?", re.sub(r"#[^\n]*", "", written[3])):
        yield f"{module}.{item}"


def _read_kernel_imports(tree: Tree, texts: Mapping[str, str]) -> tuple[str | None, tuple[str, ...], Place | None]:
    """Find the import line that torch-npu writes into generated kernels: the module and the names it takes."""
    written = re.compile(
        r"^[ \t]*from (torch_npu\._inductor\.[\w.]*triton_helpers) import ([\w ,]*\blibdevice\b[\w ,]*)", re.MULTILINE
    )
    for name in sorted(texts, key=lambda item: (item != "torch_npu/_inductor/codegen/triton.py", item)):
        text = texts[name]
        if name.startswith(INDUCTOR) and "triton_helpers import" in text and (match := written.search(text)):
            line = line_of(texts[name], match.start())
            names = tuple(part.split()[0] for part in match[2].split(",") if part.strip())
            return match[1], names, tree.place(name, line, line_text(texts[name], line))
    return None, (), None


def _read_extra_steps(tree: Tree, texts: Mapping[str, str], kernel_module: str | None) -> Iterator[ExtraStep]:
    """Read, in order, which `triton.language.extra` names the triton helpers look up, and under which try."""
    candidates = ["torch_npu/_inductor/runtime/triton_helpers.py", "torch_npu/_inductor/npu_triton_helpers.py"]
    if kernel_module:
        candidates.insert(0, kernel_module.replace(".", "/") + ".py")
    name = next((item for item in candidates if item in texts), None)
    if name is None or (module := parse(texts[name])) is None:
        return
    aliases = import_aliases(module)

    def steps(body: list[ast.stmt], branch: Literal["plain", "try", "except"], block: int) -> Iterator[ExtraStep]:
        for node in body:
            for used, bound in _extra_names(node, aliases):
                yield ExtraStep(
                    used, bound, branch, block, tree.place(name, node.lineno, line_text(texts[name], node.lineno))
                )

    for block, node in enumerate(module.body):
        if isinstance(node, ast.Try):
            yield from steps(node.body, "try", block)
            for handler in node.handlers:
                yield from steps(handler.body, "except", block)
        else:
            yield from steps([node], "plain", block)


def _extra_names(node: ast.stmt, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    prefix = "triton.language.extra."
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith(prefix):
                yield alias.name.removeprefix(prefix), alias.asname or alias.name
    elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(prefix):
        for alias in node.names:
            yield f"{node.module}.{alias.name}".removeprefix(prefix), alias.asname or alias.name
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (name := dotted(node.value)):
        full = resolve(name, aliases)
        if full.startswith(prefix):
            yield full.removeprefix(prefix), node.targets[0].id


def _read_lowering(tree: Tree, texts: Mapping[str, str]) -> FlexLowering | None:
    text = texts.get(FLEX_FILE)
    if text is None:
        return None

    def registered(operator: str) -> Place | None:
        match = re.search(rf"register_lowering\(\s*torch\.ops\.higher_order\.{operator}\b", text)
        return _place(tree, FLEX_FILE, text, match)

    loader = "torch_npu/_inductor/__init__.py"
    call = re.search(r"^[ \t]+_register_npu_inductor_flex_attention\(\)", texts.get(loader, ""), re.MULTILINE)
    operators, handled_at = _read_handled_operators(tree, text)
    return FlexLowering(
        forward=registered("flex_attention"),
        backward=registered("flex_attention_backward"),
        registered=_place(tree, loader, texts.get(loader, ""), call),
        handled_operators=operators,
        handled_at=handled_at,
    )


def _read_handled_operators(tree: Tree, text: str) -> tuple[tuple[str, ...], Place | None]:
    definition = cut_function(text, "_get_flex_attention_additional_lowerings")
    if definition is None:
        return (), None
    operators = {
        key
        for node in ast.walk(definition.node)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and (key := dotted(target.slice))
    }
    line = definition.first_line
    return tuple(sorted(operators)), tree.place(FLEX_FILE, line, line_text(text, line))


def _place(tree: Tree, name: str, text: str, match: re.Match[str] | None) -> Place | None:
    if match is None:
        return None
    line = line_of(text, match.start() + len(match[0]) - len(match[0].lstrip()))
    return tree.place(name, line, line_text(text, line))


def _read_policy(texts: Mapping[str, str]) -> Literal["allow-list", "explicit list"] | None:
    lists = [text for name, text in texts.items() if re.fullmatch(rf"{INDUCTOR}lowering\w*\.py", name)]
    if any(re.search(r"^INDIRECT_MEM_FALLBACK_LIST\b|^LOWERING_OVERRIDE_OP\b", text, re.MULTILINE) for text in lists):
        return "explicit list"
    return "allow-list" if any(re.search(r"^GENERATE_LIST\b", text, re.MULTILINE) for text in lists) else None


def _read_imports(tree: Tree, texts: Mapping[str, str]) -> Iterator[LoadImport]:
    """Follow torch_npu._inductor's own imports and yield the third-party ones.

    Only imports in column 0 are followed, so what stands under `try` or inside a function does not count; in the
    loader itself the functions that load the default backend do.
    """
    start = "torch_npu/_inductor/__init__.py"
    seen, queue = {start}, [start]
    reported = set[str]()
    while queue:
        name = queue.pop(0)
        for module, line_of_import in _loaded_modules(texts.get(name, ""), name, is_loader=name == start):
            if module.startswith("torch_npu."):
                for file in (module.replace(".", "/") + ".py", module.replace(".", "/") + "/__init__.py"):
                    if file in texts and file not in seen and file.startswith(INDUCTOR):
                        seen.add(file)
                        queue.append(file)
                continue
            top = module.partition(".")[0]
            if top and top not in _OWN_MODULES and top not in reported and top not in sys.stdlib_module_names:
                reported.add(top)
                line = line_of_import()
                yield LoadImport(top, tree.place(name, line, line_text(texts[name], line)))


def _loaded_modules(text: str, name: str, *, is_loader: bool) -> Iterator[tuple[str, Callable[[], int]]]:
    # A newline is found thirty times faster than `^` is.
    pattern = re.compile(r"\n(?:from (\.*)([\w.]*) import \(?([^\n#]*)|import ([\w.]+))")
    parts: list[tuple[int, str]] = [(0, text)]
    if is_loader:
        parts += [
            (match.start(), re.sub(r"^    ", "", match[0], flags=re.MULTILINE))
            for match in re.finditer(r"^def (\w+)\([^\n]*\n(?:(?:[ \t][^\n]*)?\n)*", text, re.MULTILINE)
            if not _OTHER_BACKENDS.search(match[1])
        ]
    package = name.split("/")[:-1]
    for offset, part in parts:
        for match in pattern.finditer(f"\n{part}"):
            line = functools.partial(_line_in_part, text, offset, part, match)
            if match[4]:
                yield match[4], line
                continue
            base = package[: len(package) - len(match[1]) + 1] if match[1] else []
            module = ".".join([*base, *filter(None, match[2].split("."))])
            yield module, line
            for item in match[3].split(","):
                if module.startswith("torch_npu") and item.strip():
                    yield f"{module}.{item.split()[0]}", line


def _line_in_part(text: str, offset: int, part: str, match: re.Match[str]) -> int:
    return line_of(text, offset) + part.count("\n", 0, match.start())
