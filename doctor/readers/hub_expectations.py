"""What diffusers asks of kernels from the Hub, read from its sources: registry, call sites, how results are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flexdoctor.facts import Place, Unread
from flexdoctor.hub_facts import Backend, CallSite, DiffusersHub, Use, WantedName
from flexdoctor.readers.sources import assignment, dotted, line_text, parse
from flexdoctor.readers.trees import Tree

DISPATCH_FILE = "diffusers/models/attention_dispatch.py"
REGISTRY = "_HUB_KERNELS_REGISTRY"
#: Fields of a registry row that hold an attribute path, and the field of the loaded function that belongs to each.
_PATHS = {
    "function_attr": ("kernel_fn", "plain"),
    "wrapped_forward_attr": ("wrapped_forward_fn", "context parallel"),
    "wrapped_backward_attr": ("wrapped_backward_fn", "context parallel"),
}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def read_diffusers(tree: Tree, version: str, huggingface_hub: str | None) -> DiffusersHub:
    """Return what the diffusers below `tree` asks of Hub kernels; older ones ask for nothing."""
    text = tree.read(DISPATCH_FILE)
    module = parse(text) if text is not None else None
    if text is None or module is None:
        unread = tuple(item for item in tree.unread if "/diffusers/" in item.path)
        if text is not None:
            unread = (*unread, Unread(tree.place(DISPATCH_FILE).path, "not Python that can be parsed"))
        return DiffusersHub(version, huggingface_hub=huggingface_hub, unread=unread)
    return _Reader(tree, text, module).read(version, huggingface_hub)


#: A function and the members of the registry that it looks up.
_User = tuple[ast.FunctionDef, set[str]]


@dataclass
class _Reader:
    tree: Tree
    text: str
    module: ast.Module

    def read(self, version: str, huggingface_hub: str | None) -> DiffusersHub:
        functions = {item.name: item for item in self.module.body if isinstance(item, ast.FunctionDef)}
        names = self._backend_names()
        error, raised = self._missing_error(functions)
        loader = functions.get("_maybe_download_kernel_for_backend")
        return DiffusersHub(
            version=version,
            backends=tuple(self._backends(functions, names)),
            backend_names=tuple(names.values()),
            backend_names_at=self._class_place("AttentionBackendName"),
            missing_name_error=error,
            missing_name_at=raised,
            loads_in=tuple(item.name for item in self._mentioning(functions, f"{loader.name}(") if item is not loader)
            if loader
            else (),
            loader_at=self._place(loader) if loader else None,
            checks_publisher=bool(loader and "trustedKernelPublisher" in ast.unparse(loader)),
            huggingface_hub=huggingface_hub,
        )

    def _mentioning(self, functions: dict[str, ast.FunctionDef], words: str) -> Iterator[ast.FunctionDef]:
        """Yield the functions whose text has `words`: walking all of a module's syntax tree takes far longer."""
        lines = self.text.splitlines()
        for function in functions.values():
            if any(words in line for line in lines[function.lineno - 1 : function.end_lineno]):
                yield function

    def _place(self, node: ast.AST) -> Place:
        line = getattr(node, "lineno", 1)
        return self.tree.place(DISPATCH_FILE, line, line_text(self.text, line))

    def _class_place(self, name: str) -> Place | None:
        return next((self._place(n) for n in self.module.body if isinstance(n, ast.ClassDef) and n.name == name), None)

    def _backend_names(self) -> dict[str, str]:
        """Map the members of AttentionBackendName to their values."""
        for node in self.module.body:
            if isinstance(node, ast.ClassDef) and node.name == "AttentionBackendName":
                return {
                    item.targets[0].id: item.value.value
                    for item in node.body
                    if isinstance(item, ast.Assign)
                    and isinstance(item.targets[0], ast.Name)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                }
        return {}

    def _backends(self, functions: dict[str, ast.FunctionDef], names: dict[str, str]) -> Iterator[Backend]:
        constraints = self._constraints(functions)
        minimums = self._kernel_minimums(functions)
        users = [(item, _registry_names(item)) for item in self._mentioning(functions, f"{REGISTRY}[")]
        for member, row in self._registry():
            fields = _literals(row)
            repo = fields.get("repo_id")
            if not isinstance(repo, str):
                continue
            wanted = [
                WantedName(path, role, self._keyword_place(row, key), tuple(self._calls(users, member, loaded)))  # type: ignore[arg-type]
                for key, (loaded, role) in _PATHS.items()
                if isinstance(path := fields.get(key), str)
            ]
            version, revision = fields.get("version"), fields.get("revision")
            yield Backend(
                name=names.get(member, member.lower()),
                repo=repo,
                place=self._place(row),
                version=version if isinstance(version, int) else None,
                revision=revision if isinstance(revision, str) else None,
                names=tuple(wanted),
                dtypes=constraints.get(member, ()),
                kernels_minimum=minimums.get(member, minimums.get("*")),
            )

    def _registry(self) -> Iterator[tuple[str, ast.Call]]:
        for node in self.module.body:
            name, value = assignment(node)
            if name != REGISTRY or not isinstance(value, ast.Dict):
                continue
            for key, row in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Attribute) and isinstance(row, ast.Call):
                    yield key.attr, row

    def _keyword_place(self, row: ast.Call, name: str) -> Place:
        return self._place(next((item.value for item in row.keywords if item.arg == name), row))

    def _missing_error(self, functions: dict[str, ast.FunctionDef]) -> tuple[str, Place | None]:
        """Return the text of the error for a missing attribute path, with the module and the path left open."""
        for node in ast.walk(functions.get("_resolve_kernel_attr") or ast.Module([], [])):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                kind = dotted(node.exc.func) or "Exception"
                return f"{kind}: {_template(node.exc.args[0])}", self._place(node)
        # Without a resolver of its own, Python's getattr speaks.
        loader = functions.get("_maybe_download_kernel_for_backend")
        for node in ast.walk(loader) if loader else ():
            if isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) == 2:
                return "AttributeError: module '{module}' has no attribute '{path}'", self._place(node)
        return "", None

    def _constraints(self, functions: dict[str, ast.FunctionDef]) -> dict[str, tuple[str, ...]]:
        """Map a backend's member name to the dtypes that its constraints name."""
        found = {}
        for function in functions.values():
            for decorator in function.decorator_list:
                if not isinstance(decorator, ast.Call) or not (dotted(decorator.func) or "").endswith(".register"):
                    continue
                member = (dotted(decorator.args[0]) or "").rpartition(".")[2] if decorator.args else ""
                checks = {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
                words = {word for name in checks if "dtype" in name for word in name.split("_")}
                dtypes = tuple(sorted(_DTYPES[word] for word in words if word in _DTYPES))
                if member and dtypes:
                    found[member] = dtypes
        return found

    def _kernel_minimums(self, functions: dict[str, ast.FunctionDef]) -> dict[str, str]:
        """Map member names to the oldest `kernels` they accept; "*" is what the shared test asks for."""
        found: dict[str, str] = {}
        check = functions.get("_check_attention_backend_requirements")
        for node in ast.walk(check) if check else ():
            if not isinstance(node, ast.If):
                continue
            for call in ast.walk(node.test):
                if not isinstance(call, ast.Call) or dotted(call.func) != "is_kernels_version" or len(call.args) != 2:
                    continue
                version = call.args[1]
                if isinstance(version, ast.Constant) and isinstance(version.value, str):
                    members = [
                        item.attr
                        for item in ast.walk(node.test)
                        if isinstance(item, ast.Attribute) and (dotted(item) or "").startswith("AttentionBackendName.")
                    ]
                    found[members[0] if members else "*"] = version.value
        return found

    def _calls(self, users: Sequence[_User], member: str, loaded: str) -> Iterator[CallSite]:
        """Find every call of a loaded kernel function: `REGISTRY[member].loaded` bound to a name, then called."""
        for function, names in users:
            if member not in names:
                continue
            local = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and _is_loaded(node.value, names, member, loaded)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            if not local:
                continue
            for body in _bodies(function):
                for statement in body:
                    call = _call_in(statement, local)
                    if call is not None:
                        yield self._call_site(function, body, statement, call)

    def _call_site(
        self, function: ast.FunctionDef, body: list[ast.stmt], statement: ast.stmt, call: ast.Call
    ) -> CallSite:
        use = _use(function, body, statement, call)
        return CallSite(
            function=function.name,
            place=self._place(call),
            positional=len(call.args),
            keywords=tuple(item.arg for item in call.keywords if item.arg),
            use=use.use,
            flag=use.flag,
            unpacks=use.unpacks,
            unpacks_exactly=use.exactly,
            method=use.method,
        )


@dataclass(frozen=True)
class _Used:
    use: Use = "unrecognised"
    flag: str | None = None
    unpacks: int | None = None
    exactly: bool = False
    method: str | None = None


def _use(function: ast.FunctionDef, body: list[ast.stmt], statement: ast.stmt, call: ast.Call) -> _Used:
    """Find out what a call's result is taken for, from the statement it stands in and those behind it."""
    if isinstance(statement, ast.Return):
        return _Used("either")
    if not isinstance(statement, ast.Assign):
        return _Used("ignored" if isinstance(statement, ast.Expr) else "unrecognised")
    target = statement.targets[0]
    if isinstance(target, ast.Tuple):
        return _unpacking(target)
    if not isinstance(target, ast.Name):
        return _Used()
    if target.id == "_":
        return _Used("ignored")
    # The same block comes first; what follows the block (an if around the call) belongs to the result too.
    rest = [*body[body.index(statement) + 1 :], *_after(function, body)]
    return _use_of_name(target.id, rest, call)


def _use_of_name(name: str, rest: list[ast.stmt], call: ast.Call) -> _Used:
    flags = {item.value.id: item.arg for item in call.keywords if isinstance(item.value, ast.Name) and item.arg}
    method, flagged = None, None
    for statement in rest:
        if _is_tested(statement, name):
            return _Used("either")
        flagged = _under_a_flag(statement, name, flags) or flagged
        method = method or _method_called(statement, name)
        if isinstance(statement, ast.Return):
            break
    if flagged:
        return _Used("by flag", flagged.flag, flagged.unpacks, flagged.exactly, method)
    flag = next((keyword for keyword in flags.values() if keyword.startswith("return_")), None)
    return _Used("tensor", flag, method=method)


def _is_tested(statement: ast.stmt, name: str) -> bool:
    """Whether a statement asks isinstance(name, ...)."""
    return any(
        isinstance(node, ast.Call)
        and dotted(node.func) == "isinstance"
        and node.args
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == name
        for node in ast.walk(statement)
    )


def _under_a_flag(statement: ast.stmt, name: str, flags: dict[str, str]) -> _Used | None:
    """Return how a name is taken apart when a flag is on: `if flag: a, b, *_ = name`, `(name[0], ...) if flag else`."""
    if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name):
        for inner in statement.body:
            if isinstance(inner, ast.Assign) and _takes_apart(inner, name):
                target = inner.targets[0]
                unpacking = _unpacking(target) if isinstance(target, ast.Tuple) else _Used()
                return _Used("by flag", flags.get(statement.test.id), unpacking.unpacks, unpacking.exactly)
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Name) and _indexes(node.body, name):
            return _Used("by flag", flags.get(node.test.id), 2)
    return None


def _method_called(statement: ast.stmt, name: str) -> str | None:
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
        ):
            return node.func.attr
    return None


def _unpacking(target: ast.Tuple) -> _Used:
    starred = any(isinstance(item, ast.Starred) for item in target.elts)
    return _Used("tuple", unpacks=len(target.elts) - starred, exactly=not starred)


def _takes_apart(statement: ast.stmt, name: str) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Tuple)
        and isinstance(statement.value, ast.Name)
        and statement.value.id == name
    )


def _indexes(node: ast.expr, name: str) -> bool:
    return any(
        isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name) and item.value.id == name
        for item in ast.walk(node)
    )


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every block of statements below `node`."""
    for child in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(child, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _after(function: ast.FunctionDef, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of the function that follow the one which holds `body`."""
    if body is function.body:
        return []
    for index, statement in enumerate(function.body):
        if any(block is body for block in _bodies(statement)):
            return function.body[index + 1 :]
    return []


def _call_in(statement: ast.stmt, local: set[str]) -> ast.Call | None:
    if isinstance(statement, ast.Assign | ast.Return | ast.Expr) and isinstance(call := statement.value, ast.Call):
        return call if isinstance(call.func, ast.Name) and call.func.id in local else None
    return None


def _registry_names(function: ast.FunctionDef) -> set[str]:
    """Return the members of the registry that a function looks up."""
    return {
        node.slice.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == REGISTRY
        and isinstance(node.slice, ast.Attribute)
    }


def _is_loaded(value: ast.expr, names: set[str], member: str, loaded: str) -> bool:
    """Whether `value` is the loaded function of a backend: `REGISTRY[member].loaded`, or `config.loaded`."""
    if not isinstance(value, ast.Attribute) or value.attr != loaded:
        return False
    if isinstance(value.value, ast.Subscript):
        return isinstance(value.value.slice, ast.Attribute) and value.value.slice.attr == member
    return isinstance(value.value, ast.Name) and names == {member}


def _literals(call: ast.Call) -> dict[str, Any]:
    return {item.arg: item.value.value for item in call.keywords if item.arg and isinstance(item.value, ast.Constant)}


def _template(node: ast.expr) -> str:
    """Return the text of an f-string with the module's name and the path as open places."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.JoinedStr):
        return ""
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        else:
            inner = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            parts.append("{module}" if "module" in inner else "{path}" if "path" in inner else "…")
    return "".join(parts)
