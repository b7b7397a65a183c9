"""What a Python function takes and hands back, as far as its sources tell.

The one question is whether a caller gets a tensor or a tuple, and which of its own arguments decides that. Calls are
followed within the package, `autograd.Function.apply` into `forward`; anything else that is called is opaque.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flexdoctor.hub_facts import Parameter, ParameterKind, Yield
from flexdoctor.readers.modules import Package, Target
from flexdoctor.readers.sources import dotted

_MAX_DEPTH = 8
#: Methods of a tensor that give a tensor.
_TENSOR_METHODS = frozenset(
    [
        "bfloat16",
        "clone",
        "contiguous",
        "detach",
        "expand",
        "flatten",
        "float",
        "half",
        "permute",
        "reshape",
        "squeeze",
        "to",
        "transpose",
        "type",
        "type_as",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
_TENSOR_FUNCTIONS = frozenset(
    f"torch.{name}" for name in ("cat", "empty", "empty_like", "stack", "zeros", "zeros_like")
)

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Outcome:
    """One thing that a function may hand back, and the truth of its parameters under which it does."""

    gives: Yield
    length: int | None = None
    when: tuple[tuple[str, bool], ...] = ()
    line: int | None = None


@dataclass(frozen=True)
class Returned:
    """All outcomes of a function, summed up."""

    gives: Yield = "opaque"
    flags: tuple[str, ...] = ()
    length: int | None = None
    line: int | None = None


def parameters_of(function: AnyFunction, skip: int = 0) -> tuple[Parameter, ...]:
    """Return the parameters of a function, without the first `skip` (ctx, self)."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)

    def make(item: ast.arg, kind: ParameterKind, default: ast.expr | None = None) -> Parameter:
        return Parameter(item.arg, kind, None if default is None else ast.unparse(default)[:80])

    found = [
        make(item, "positional" if item in arguments.posonlyargs else "either", default)
        for item, default in zip(positional, defaults, strict=True)
    ][skip:]
    if arguments.vararg:
        found.append(make(arguments.vararg, "args"))
    found += [
        make(item, "keyword", default)
        for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append(make(arguments.kwarg, "kwargs"))
    return tuple(found)


def what_returns(package: Package, target: Target) -> Returned:
    """Return what a function of a package hands back to its caller."""
    function = target.function
    if function is None:
        return Returned()
    try:
        outcomes = list(_Reader(package, target.module, function, 0).outcomes())
    except RecursionError:
        return Returned()
    return sum_up(outcomes)


def sum_up(outcomes: Sequence[Outcome]) -> Returned:
    """Reduce outcomes to one answer: a tuple "by flag" is one that every flag named there switches on."""
    tuples = [item for item in outcomes if item.gives == "tuple"]
    others = [item for item in outcomes if item.gives == "tensor"]
    # A tuple whose elements nobody can count comes from a branch that the flags below do not rule out.
    if not outcomes or any(item.gives == "opaque" for item in outcomes):
        return Returned("opaque", line=outcomes[0].line if outcomes else None)
    lengths = {item.length for item in tuples}
    length = lengths.pop() if len(lengths) == 1 else None
    if not others:
        return Returned("tuple", (), length, tuples[0].line)
    if not tuples:
        return Returned("tensor", (), None, others[0].line)
    flags = [{name for name, value in item.when if value} for item in tuples]
    if all(flags):
        return Returned("by flag", tuple(sorted(set().union(*flags))), length, tuples[0].line)
    return Returned("opaque", line=tuples[0].line)


@dataclass
class _Reader:
    package: Package
    module: str
    function: AnyFunction
    depth: int
    #: For a followed call: what the callee's parameters are in terms of the caller's.
    assigned: dict[str, list[tuple[ast.expr, bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = {item.name for item in parameters_of(self.function)}
        for node in self._own_nodes():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._note(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
                self._note(node.target, node.value)

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append((value, False))
        elif isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                if isinstance(item, ast.Name):
                    self.assigned.setdefault(item.id, []).append((value, True))

    def _own_nodes(self) -> Iterator[ast.AST]:
        """Yield the nodes of the function, without those of functions inside."""
        queue: list[ast.AST] = list(self.function.body) if isinstance(self.function.body, list) else []
        while queue:
            node = queue.pop(0)
            yield node
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                queue += ast.iter_child_nodes(node)

    def outcomes(self) -> Iterator[Outcome]:
        if isinstance(self.function, ast.Lambda):
            yield from self._value(self.function.body, (), set())
            return
        found = False
        for statement, when in _returns(self.function.body, (), self.names):
            found = True
            if statement.value is None:
                yield Outcome("opaque", line=statement.lineno)
            else:
                for item in self._value(statement.value, when, set()):
                    yield Outcome(item.gives, item.length, item.when, item.line or statement.lineno)
        if not found:
            yield Outcome("opaque", line=self.function.lineno)

    def _value(self, node: ast.expr, when: tuple[tuple[str, bool], ...], seen: set[str]) -> Iterator[Outcome]:
        line = node.lineno
        if isinstance(node, ast.Tuple | ast.List):
            # A list may grow before it is handed back.
            open_ended = isinstance(node, ast.List) or any(isinstance(item, ast.Starred) for item in node.elts)
            yield Outcome("tuple", None if open_ended else len(node.elts), when, line)
        elif isinstance(node, ast.IfExp):
            yield from self._value(node.body, (*when, *_flags(node.test, self.names, True)), seen)
            yield from self._value(node.orelse, (*when, *_flags(node.test, self.names, False)), seen)
        elif isinstance(node, ast.Name):
            yield from self._name(node, when, seen)
        elif isinstance(node, ast.Subscript):
            yield from self._subscript(node, when)
        elif isinstance(node, ast.Call):
            yield from self._call(node, when, seen)
        elif isinstance(node, ast.BinOp | ast.UnaryOp):
            yield Outcome("tensor", None, when, line)
        else:
            yield Outcome("opaque", None, when, line)

    def _subscript(self, node: ast.Subscript, when: tuple[tuple[str, bool], ...]) -> Iterator[Outcome]:
        # result[0] of a tuple is a tensor, out[..., :d] too; result[:2] may be either.
        gives: Yield = "opaque" if isinstance(node.slice, ast.Slice) else "tensor"
        yield Outcome(gives, None, when, node.lineno)

    def _name(self, node: ast.Name, when: tuple[tuple[str, bool], ...], seen: set[str]) -> Iterator[Outcome]:
        values = self.assigned.get(node.id)
        if node.id in seen:
            return  # `out = out.view(...)`: decided by the other assignments
        if not values:
            # A parameter that is handed back (`out=None`) is a tensor; a global is not known.
            yield Outcome("tensor" if node.id in self.names else "opaque", None, when, node.lineno)
            return
        for value, unpacked in values:
            if unpacked:
                yield Outcome("tensor", None, when, node.lineno)
            else:
                yield from self._value(value, when, seen | {node.id})

    def _call(self, node: ast.Call, when: tuple[tuple[str, bool], ...], seen: set[str]) -> Iterator[Outcome]:
        name = dotted(node.func) or ""
        if name in ("tuple", "list"):
            yield Outcome("tuple", None, when, node.lineno)
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TENSOR_METHODS:
            yield Outcome("tensor", None, when, node.lineno)
            return
        if name in _TENSOR_FUNCTIONS:
            yield Outcome("tensor", None, when, node.lineno)
            return
        callee = self._callee(name) if name and self.depth < _MAX_DEPTH else None
        if callee is None:
            yield Outcome("opaque", None, when, node.lineno)
            return
        target, skip = callee
        function = target.function
        if function is None:
            yield Outcome("opaque", None, when, node.lineno)
            return
        passed = _arguments(node, parameters_of(function, skip))
        for item in _Reader(self.package, target.module, function, self.depth + 1).outcomes():
            translated = self._translate(item.when, passed, parameters_of(function, skip))
            if translated is not None:
                yield Outcome(item.gives, item.length, (*when, *translated), node.lineno)

    def _callee(self, name: str) -> tuple[Target, int] | None:
        """Return the definition behind a call and how many leading parameters are not the caller's."""
        head, _, method = name.rpartition(".")
        if method == "apply" and head:
            binding = self.package.look_up(self.module, head)
            for target in binding.targets if binding else ():
                if isinstance(target.node, ast.ClassDef):
                    for item in target.node.body:
                        if isinstance(item, ast.FunctionDef) and item.name == "forward":
                            return Target("function", target.module, item, item.lineno), 1
            return None
        binding = self.package.look_up(self.module, name)
        if binding is None or len(binding.targets) != 1 or binding.targets[0].function is None:
            return None
        return binding.targets[0], 0

    def _translate(
        self, when: tuple[tuple[str, bool], ...], passed: Mapping[str, ast.expr], parameters: tuple[Parameter, ...]
    ) -> tuple[tuple[str, bool], ...] | None:
        """Express the callee's conditions by this function's parameters; None when they cannot come true here."""
        result: list[tuple[str, bool]] = []
        defaults = {item.name: item.default for item in parameters}
        for name, value in when:
            argument = passed.get(name)
            if argument is None:
                given = {"True": True, "False": False, "None": False}.get(defaults.get(name) or "")
                if given is not None and given is not value:
                    return None
                continue
            if isinstance(argument, ast.Constant):
                if bool(argument.value) is not value:
                    return None
                continue
            result += _flags(argument, self.names, value)
        return tuple(result)


def _arguments(node: ast.Call, parameters: tuple[Parameter, ...]) -> dict[str, ast.expr]:
    names = [item.name for item in parameters if item.kind in ("positional", "either")]
    passed = dict(zip(names, node.args, strict=False))
    passed.update({item.arg: item.value for item in node.keywords if item.arg})
    return passed


def _flags(test: ast.expr, names: set[str], value: bool) -> tuple[tuple[str, bool], ...]:
    """Return which parameters must be true or false for `test` to be `value`, as far as that is simple."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _flags(test.operand, names, not value)
    if isinstance(test, ast.Name) and test.id in names:
        return ((test.id, value),)
    if isinstance(test, ast.BoolOp):
        # For `a or b` to be true one of them must be, for `a and b` both: either way these are the switches.
        return tuple(item for operand in test.values for item in _flags(operand, names, value))
    return ()


def _returns(
    body: Sequence[ast.stmt], when: tuple[tuple[str, bool], ...], names: set[str]
) -> Iterator[tuple[ast.Return, tuple[tuple[str, bool], ...]]]:
    """Yield the return statements of a body with the conditions on parameters under which they are reached."""
    for node in body:
        if isinstance(node, ast.Return):
            yield node, when
        elif isinstance(node, ast.If):
            yield from _returns(node.body, (*when, *_flags(node.test, names, True)), names)
            yield from _returns(node.orelse, (*when, *_flags(node.test, names, False)), names)
            if node.body and isinstance(node.body[-1], ast.Return | ast.Raise) and not node.orelse:
                when = (*when, *_flags(node.test, names, False))
        elif isinstance(node, ast.For | ast.While | ast.With | ast.AsyncWith):
            yield from _returns(node.body, when, names)
        elif isinstance(node, ast.Try):
            for part in (node.body, *(item.body for item in node.handlers), node.orelse, node.finalbody):
                yield from _returns(part, when, names)


def dtypes_of(function: AnyFunction) -> tuple[str, ...]:
    """Return the dtypes that a function states: those that it asserts, or raises about when they are not met."""
    found = set[str]()
    for node in ast.walk(function):
        test = node.test if isinstance(node, ast.Assert) else None
        if isinstance(node, ast.If) and any(isinstance(item, ast.Raise) for item in node.body):
            test = node.test
        for compared in ast.walk(test) if test else ():
            if isinstance(compared, ast.Compare) and (dotted(compared.left) or "").endswith("dtype"):
                found |= _dtypes(compared)
    return tuple(sorted(found))


def _dtypes(compared: ast.Compare) -> set[str]:
    known = {"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"}
    listed = [
        item for part in compared.comparators if isinstance(part, ast.Tuple | ast.List | ast.Set) for item in part.elts
    ]
    return {item.attr for item in listed if isinstance(item, ast.Attribute) and item.attr in known}
