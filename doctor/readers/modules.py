"""What names a Python package offers, and what its functions return, from its sources alone.

A package is read the way that an import would bind its names: imports between its modules are followed, conditional
definitions keep all their alternatives, and everything that only a run could tell (`torch.ops`, the result of a call)
is opaque. Nothing is imported. Depth, number and size of what is read are bounded, whatever the package contains.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flexdoctor.facts import Place, Unread
from flexdoctor.readers.sources import dotted, line_text, parse
from flexdoctor.readers.trees import Tree

MAX_MODULE_BYTES = 1024 * 1024
MAX_PACKAGE_BYTES = 8 * 1024 * 1024
MAX_MODULES = 200
_MAX_DEPTH = 24


@dataclass(frozen=True)
class Target:
    """What a name may stand for. `kind` decides which of the other fields count."""

    kind: str  # "function", "class", "module", "opaque"
    module: str = ""
    node: ast.AST | None = field(default=None, compare=False, hash=False)
    line: int | None = None
    why: str = ""

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
        """The definition, when it is a function."""
        node = self.node
        return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else None


@dataclass
class Binding:
    """The targets that a name may have; `certain` is False when it may also be unbound."""

    targets: list[Target]
    certain: bool = True


@dataclass
class Module:
    """One source file, and the names that it binds."""

    name: str
    text: str
    names: dict[str, Binding] = field(default_factory=dict)
    #: Modules of the package that it imports, which thereby become attributes of their parent.
    imports: set[str] = field(default_factory=set)
    #: The names cannot be listed: a module-level `__getattr__`, or writing to `globals()`.
    dynamic: bool = False
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)


class Package:
    """A package below a tree, read on demand.

    Args:
        root: the folder of the package, relative to the tree; "" for the tree itself.
        own_names: top-level names under which the package imports itself (`flash_attn2`).
    """

    def __init__(self, tree: Tree, root: str, own_names: Iterable[str] = ()) -> None:
        self.tree = tree
        self.root = root
        self.own_names = frozenset(own_names)
        self.unread: dict[str, Unread] = {}
        self._modules: dict[str, Module | None] = {}
        self._bytes = 0
        self._resolving: set[tuple[str, str]] = set()

    def file_of(self, module: str) -> str:
        """Return the path of a loaded module's file, relative to the tree."""
        base = posixpath.join(self.root, module.replace(".", "/")) if module else self.root
        package = posixpath.join(base, "__init__.py")
        return package if not module or self.tree.exists(package) else f"{base}.py"

    def place(self, module: str, line: int | None) -> Place:
        """Return where a line of a module is."""
        loaded = self._modules.get(module)
        text = line_text(loaded.text, line) if loaded and line else ""
        return self.tree.place(self.file_of(module), line, text if len(text) <= 100 else f"{text[:99]}…")

    def load(self, module: str) -> Module | None:
        """Return a module of the package by its dotted name below it ("" is the package), or None."""
        if module in self._modules:
            return self._modules[module]
        self._modules[module] = None
        name = self.file_of(module)
        if not self.tree.exists(name):
            return None
        if len(self._modules) > MAX_MODULES:
            self._note(name, f"more than {MAX_MODULES} modules")
            return None
        text = self.tree.read(name)
        if text is None:
            return None
        self._bytes += len(text)
        if len(text) > MAX_MODULE_BYTES or self._bytes > MAX_PACKAGE_BYTES:
            self._note(name, "more source text than a kernel's Python part has")
            return None
        tree = parse(text)
        if tree is None:
            self._note(name, "not Python that can be parsed")
            return None
        loaded = Module(module, text)
        self._modules[module] = loaded
        try:
            _Binder(self, loaded, is_package=name.endswith("__init__.py")).run(tree.body)
        except RecursionError:
            self._note(name, "nested too deeply to be read")
            loaded.dynamic = True
        return loaded

    def look_up(self, module: str, path: str) -> Binding | None:
        """Return what the dotted `path` stands for in a module, None when it is not there.

        An empty list of targets, or a target of kind "opaque", means that the sources do not tell.
        """
        head, _, rest = path.partition(".")
        binding = self._name(module, head)
        if binding is None or not rest:
            return binding
        targets, certain, known = list[Target](), binding.certain, False
        for target in binding.targets:
            if target.kind != "module":
                targets.append(Target("opaque", target.module, None, target.line, "an attribute of something opaque"))
                known = True
                continue
            inner = self.look_up(target.module, rest)
            if inner is None:
                certain = False
                continue
            known = True
            targets += inner.targets
            certain = certain and inner.certain
        return Binding(targets, certain) if known else None

    def _name(self, module: str, name: str) -> Binding | None:
        if (module, name) in self._resolving or len(self._resolving) > _MAX_DEPTH:
            return Binding([Target("opaque", module, why="imports that go in circles")])
        self._resolving.add((module, name))
        try:
            loaded = self.load(module)
            if loaded is None:
                return Binding([Target("opaque", module, why="a module that cannot be read")])
            if name in loaded.names:
                return self.follow(loaded.names[name])
            below = f"{module}.{name}" if module else name
            if below in self._imported_from(module):
                return Binding([Target("module", below)])
            if loaded.dynamic:
                return Binding([Target("opaque", module, why="names made at import")], certain=False)
            return None
        finally:
            self._resolving.discard((module, name))

    def follow(self, binding: Binding) -> Binding:
        """Replace imports among the targets by what they lead to."""
        targets, certain = list[Target](), binding.certain
        for target in binding.targets:
            if target.kind != "import":
                targets.append(target)
                continue
            found = self.look_up(target.module, target.why) if target.why else None
            if target.why and found is None:
                below = f"{target.module}.{target.why}" if target.module else target.why
                if self.load(below) is not None:
                    targets.append(Target("module", below))
                elif self.load(target.module) is None:
                    targets.append(Target("opaque", target.module, None, target.line, "imported from what is not here"))
                else:
                    # `from .x import y` without such a y fails at import.
                    certain = False
            elif found is not None:
                targets += found.targets
                certain = certain and found.certain
        return Binding(targets, certain)

    def _imported_from(self, module: str) -> set[str]:
        """Return every module that is imported, at any distance, when `module` is."""
        seen, queue = {module}, [module]
        while queue and len(seen) <= MAX_MODULES:
            loaded = self.load(queue.pop())
            for name in loaded.imports if loaded else ():
                if name not in seen:
                    seen.add(name)
                    queue.append(name)
        return seen - {module}

    def public_names(self, module: str, limit: int) -> tuple[str, ...]:
        """Return the sorted names of a module without leading underscore, at most `limit`."""
        loaded = self.load(module)
        return tuple(sorted(name for name in (loaded.names if loaded else ()) if not name.startswith("_")))[:limit]

    def _note(self, name: str, reason: str) -> None:
        self.unread.setdefault(name, Unread(self.tree.place(name).path, reason))


class _Binder:
    """Binds the names of one module, statement by statement."""

    def __init__(self, package: Package, module: Module, *, is_package: bool) -> None:
        self.package = package
        self.module = module
        self.base = module.name if is_package else module.name.rpartition(".")[0]

    def run(self, body: list[ast.stmt]) -> None:
        self.module.names.update(self._block(body))

    def _block(self, body: list[ast.stmt]) -> dict[str, Binding]:
        names: dict[str, Binding] = {}
        for statement in body:
            for name, binding in self._statement(statement, names).items():
                if binding.certain or name not in names:
                    names[name] = binding
                else:
                    names[name] = Binding([*names[name].targets, *binding.targets], names[name].certain)
        return names

    def _statement(self, node: ast.stmt, names: dict[str, Binding]) -> dict[str, Binding]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return {node.name: Binding([self._function(node)])}
        if isinstance(node, ast.ClassDef):
            self.module.classes[node.name] = node
            return {node.name: Binding([Target("class", self.module.name, node, node.lineno)])}
        if isinstance(node, ast.Import | ast.ImportFrom):
            return self._import(node)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            return self._assign(node, names)
        if isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    names.pop(target.id, None)
        elif isinstance(node, ast.Expr) and _mentions_globals(node):
            self.module.dynamic = True
        return self._compound(node)

    def _compound(self, node: ast.stmt) -> dict[str, Binding]:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Try):
            return self._try(node)
        if isinstance(node, ast.With):
            return self._block(node.body)
        if isinstance(node, ast.For | ast.While):
            block = self._block([*node.body, *node.orelse])
            return {name: Binding(item.targets, certain=False) for name, item in block.items()}
        return {}

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Target:
        # custom_op, register_kernel and the like keep the signature; what else a decorator does, nobody can tell.
        if node.name == "__getattr__":
            self.module.dynamic = True
        plain = all(_keeps_signature(item) for item in node.decorator_list)
        kind = "function" if plain else "opaque"
        return Target(kind, self.module.name, node if plain else None, node.lineno, "" if plain else "decorated")

    def _import(self, node: ast.Import | ast.ImportFrom) -> dict[str, Binding]:
        names = {}
        if isinstance(node, ast.Import):
            for alias in node.names:
                inside = self._inside(alias.name)
                bound = alias.asname or alias.name.partition(".")[0]
                if inside is None:
                    names[bound] = Binding([Target("opaque", self.module.name, None, node.lineno, alias.name)])
                else:
                    self.module.imports |= set(_parents(inside))
                    names[bound] = Binding([Target("module", inside if alias.asname else "")])
            return names
        source = self._source(node)
        if source is None:
            for alias in node.names:
                why = f"{node.module}.{alias.name}"
                names[alias.asname or alias.name] = Binding(
                    [Target("opaque", self.module.name, None, node.lineno, why)]
                )
            return names
        self.module.imports |= set(_parents(source))
        for alias in node.names:
            if alias.name == "*":
                names.update(self._star(source))
                continue
            below = f"{source}.{alias.name}" if source else alias.name
            if self.package.tree.exists(self.package.file_of(below)):
                self.module.imports.add(below)
            target = Target("import", source, None, node.lineno, alias.name)
            names[alias.asname or alias.name] = Binding([target])
        return names

    def _star(self, source: str) -> dict[str, Binding]:
        loaded = self.package.load(source)
        if loaded is None:
            self.module.dynamic = True
            return {}
        listed = _literal_all(loaded)
        wanted = listed if listed is not None else [name for name in loaded.names if not name.startswith("_")]
        self.module.dynamic = self.module.dynamic or loaded.dynamic
        return {name: loaded.names[name] for name in wanted if name in loaded.names}

    def _inside(self, name: str) -> str | None:
        """Return the name below the package of an absolute import of the package by itself."""
        head, _, rest = name.partition(".")
        return rest if head in self.package.own_names else None

    def _source(self, node: ast.ImportFrom) -> str | None:
        if not node.level:
            return self._inside(node.module or "")
        parts = self.base.split(".") if self.base else []
        if node.level - 1 > len(parts):
            return None
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, *(node.module.split(".") if node.module else [])])

    def _assign(self, node: ast.Assign | ast.AnnAssign, names: dict[str, Binding]) -> dict[str, Binding]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None:
            return {}
        bound: dict[str, Binding] = {}
        for target in targets:
            if isinstance(target, ast.Name):
                bound[target.id] = self._value(node.value, names)
            elif isinstance(target, ast.Tuple | ast.List):
                for item in target.elts:
                    if isinstance(item, ast.Name):
                        bound[item.id] = Binding([Target("opaque", self.module.name, None, node.lineno, "unpacked")])
            elif isinstance(target, ast.Subscript) and _mentions_globals(target.value):
                self.module.dynamic = True
        return bound

    def _value(self, value: ast.expr, names: Mapping[str, Binding]) -> Binding:
        if isinstance(value, ast.Name) and value.id in names:
            return names[value.id]
        if isinstance(value, ast.Lambda):
            return Binding([Target("function", self.module.name, value, value.lineno)])
        if isinstance(value, ast.IfExp):
            first, second = self._value(value.body, names), self._value(value.orelse, names)
            return Binding([*first.targets, *second.targets], first.certain and second.certain)
        if isinstance(value, ast.Attribute) and (path := dotted(value)):
            head, _, rest = path.partition(".")
            binding = names.get(head)
            if binding and rest and all(item.kind in ("import", "module") for item in binding.targets):
                followed = self.package.follow(binding)
                if followed.targets and all(item.kind == "module" for item in followed.targets):
                    found = self.package.look_up(followed.targets[0].module, rest)
                    if found is not None:
                        return found
        return Binding([Target("opaque", self.module.name, None, value.lineno, ast.unparse(value)[:80])])

    def _if(self, node: ast.If) -> dict[str, Binding]:
        test = dotted(node.test) or ""
        if test.endswith("TYPE_CHECKING"):
            return self._block(node.orelse)
        return _either(self._block(node.body), self._block(node.orelse))

    def _try(self, node: ast.Try) -> dict[str, Binding]:
        body = self._block([*node.body, *node.orelse])
        for handler in node.handlers:
            if handler.body and isinstance(handler.body[-1], ast.Raise):
                continue
            body = _either(body, self._block(handler.body))
        return {**body, **self._block(node.finalbody)}


def _either(first: dict[str, Binding], second: dict[str, Binding]) -> dict[str, Binding]:
    names = {}
    for name in {**first, **second}:
        one, two = first.get(name), second.get(name)
        if one and two:
            # A name that one branch sets to None is there, but not as something that can be called.
            names[name] = Binding([*one.targets, *two.targets], one.certain and two.certain)
        else:
            names[name] = Binding((one or two or Binding([])).targets, certain=False)
    return names


def _mentions_globals(node: ast.AST) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "globals" for item in ast.walk(node))


def _parents(module: str) -> Iterator[str]:
    parts = module.split(".") if module else []
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def _keeps_signature(decorator: ast.expr) -> bool:
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
    known = ("custom_op", "register_kernel", "compile", "disable", "no_grad", "inference_mode", "lru_cache", "cache")
    return name.rpartition(".")[2] in (*known, "allow_in_graph", "triton_op", "flash_api", "experimental")


def _literal_all(module: Module) -> list[str] | None:
    tree = parse(module.text)
    for node in tree.body if tree else ():
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(item, ast.Name) and item.id == "__all__" for item in node.targets)
            and isinstance(node.value, ast.List | ast.Tuple)
        ):
            return [
                item.value for item in node.value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
    return None
