"""Questions to Python source text, answered without running it.

Large modules are not parsed whole: a definition is cut out by its indentation and only that part goes to `ast`.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from flexdoctor.frozen import dataclass


@dataclass(frozen=True)
class Definition:
    """A top-level function cut out of a module. `first_line` is the line of its `def` in the file."""

    node: ast.FunctionDef
    first_line: int

    def line(self, node: ast.AST) -> int:
        """Return the line of `node` in the file."""
        return self.first_line + int(getattr(node, "lineno", 1)) - 1


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree of `text`, or None when it is not Python that this interpreter understands."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parse_around(text: str, word: str) -> ast.Module | None:
    """Return the syntax tree of `text` without those top-level functions and classes that do not mention `word`.

    Lines keep their numbers. Where the text cannot be cut by its indentation, it is parsed whole.
    """

    def cut(match: re.Match[str]) -> str:
        block = match[0]
        # An odd number of quotes: what looks like the end of the block stands in a string that began in it.
        is_whole = block.count('"""') % 2 == 0 and block.count("'''") % 2 == 0
        return "\n" * block.count("\n") if is_whole and word not in block else block

    kept = re.sub(r"(?<=\n)(?:@[^\n]*\n)*(?:async def|def|class) [^\n]*\n(?:(?:[ \t)#][^\n]*)?\n)*", cut, text)
    return parse(kept) or parse(text)


def cut_function(text: str, name: str) -> Definition | None:
    """Return the top-level function `name` of a module, or None when it is absent or cannot be parsed."""
    written = f"def {name}("
    start = 0 if text.startswith(written) else text.find(f"\n{written}") + 1
    if start == 0 and not text.startswith(written):
        return None
    # The body ends where the next statement starts in column 0; a signature may close its bracket there.
    end = re.compile(r"\n[^\s)#]").search(text, start)
    tree = parse(text[start : end.start() + 1 if end else len(text)])
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    return Definition(tree.body[0], line_of(text, start))


def line_of(text: str, offset: int) -> int:
    """Return the 1-based line of a character offset."""
    return text.count("\n", 0, offset) + 1


def line_text_raw(text: str, line: int) -> str:
    """Return one line of `text` with its indentation, or "" beyond the end."""
    lines = text.split("\n", line)
    return lines[line - 1] if 0 < line <= len(lines) else ""


def line_text(text: str, line: int) -> str:
    """Return one line of `text`, stripped."""
    return line_text_raw(text, line).strip()


def dotted(node: ast.AST) -> str | None:
    """Return `a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def import_aliases(tree: ast.AST) -> dict[str, str]:
    """Map every name that an import binds anywhere in `tree` to the dotted name that it stands for."""
    names: dict[str, str] = {}
    for node in [tree] if isinstance(tree, ast.Import | ast.ImportFrom) else ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def resolve(name: str, aliases: Mapping[str, str]) -> str:
    """Replace the first part of a dotted name by what an import bound it to."""
    head, _, tail = name.partition(".")
    known = aliases.get(head, head)
    return f"{known}.{tail}" if tail else known


def assignment(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """Return name and value of `name = value`, annotated or not; (None, None) for any other statement."""
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
        return target.id, node.value
    return None, None


@dataclass(frozen=True)
class Assignment:
    """`target = ...` or `setattr(owner, "attribute", ...)`; the target is dotted, with imports resolved."""

    target: str
    line: int


def attribute_assignments(text: str, tree: ast.AST, attribute: str) -> Iterator[Assignment]:
    """Yield every assignment to `attribute` of a module-like name, with the name's imports resolved.

    `tree` is that of `text`. Only those nodes are walked on whose lines the attribute or an import stands.
    """
    lines = [number for number, line in enumerate(text.split("\n"), 1) if attribute in line or "import" in line]
    found: list[tuple[str, int]] = []
    aliases: dict[str, str] = {}
    queue = deque([tree])
    while queue:
        node = queue.popleft()
        queue += [child for child in ast.iter_child_nodes(node) if _is_on(child, lines)]
        if isinstance(node, ast.Import | ast.ImportFrom):
            aliases.update(import_aliases(node))
        elif isinstance(node, ast.Assign):
            targets = (target for target in node.targets if isinstance(target, ast.Attribute))
            found += [
                (name, node.lineno) for target in targets if target.attr == attribute and (name := dotted(target))
            ]
        elif isinstance(node, ast.Call) and (owner := _setattr_owner(node, attribute)):
            found.append((f"{owner}.{attribute}", node.lineno))
    for name, line in found:
        yield Assignment(resolve(name, aliases), line)


def _is_on(node: ast.AST, lines: Sequence[int]) -> bool:
    """Tell whether a node, where it knows, stands on one of the sorted `lines`."""
    first: int | None = getattr(node, "lineno", None)
    if first is None:
        return True
    last: int | None = getattr(node, "end_lineno", None)
    behind = bisect_left(lines, first)
    return behind < len(lines) and lines[behind] <= (last or first)


def _setattr_owner(node: ast.Call, attribute: str) -> str | None:
    if not isinstance(node.func, ast.Name) or node.func.id != "setattr" or len(node.args) != 3:
        return None
    name = node.args[1]
    return dotted(node.args[0]) if isinstance(name, ast.Constant) and name.value == attribute else None


class Verdict:
    """Three-valued truth of a test in which some operands are not known."""

    @staticmethod
    def of(test: ast.expr, known: Mapping[str, object]) -> bool | None:
        """Evaluate `test`; `known` maps dotted names (by their last attributes) to values. None: cannot tell."""
        if isinstance(test, ast.BoolOp):
            values = [Verdict.of(value, known) for value in test.values]
            decisive = isinstance(test.op, ast.Or)
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = Verdict.of(test.operand, known)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return Verdict._compare(test, known)
        value = constant(test, known)
        return value if isinstance(value, bool) else None

    @staticmethod
    def _compare(test: ast.Compare, known: Mapping[str, object]) -> bool | None:
        left, right = constant(test.left, known), constant(test.comparators[0], known)
        if left is None or right is None:
            return None
        operator = test.ops[0]
        if isinstance(operator, ast.Eq | ast.NotEq):
            return (left == right) is isinstance(operator, ast.Eq)
        if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, frozenset | str):
            return (left in right) is isinstance(operator, ast.In)
        return None


def constant(node: ast.expr, known: Mapping[str, object]) -> object | None:
    """Return a string, a boolean or a set of strings that `node` stands for, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bool):
        return node.value
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        items = [constant(item, known) for item in node.elts]
        return frozenset(items) if all(isinstance(item, str) for item in items) else None
    if isinstance(node, ast.Call) and dotted(node.func) in ("frozenset", "set") and len(node.args) == 1:
        return constant(node.args[0], known)
    if name := dotted(node):
        return next((value for suffix, value in known.items() if name == suffix or name.endswith(f".{suffix}")), None)
    return None


def string_constants(node: ast.AST) -> Iterator[str]:
    """Yield every string literal below `node`."""
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
