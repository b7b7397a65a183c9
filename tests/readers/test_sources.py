"""A module is cut before it is parsed; what is found in it must be what its whole text has."""

from __future__ import annotations

import ast

import pytest

from flexdoctor.readers.sources import Assignment, attribute_assignments, parse_around

IMPORTS = "import torch._dynamo.utils as utils\nfrom torch.utils import _triton\n"
UNRELATED = '@decorated\ndef before(value):\n    """Says nothing.\n\n    """\n    return value\n\n\n'
PATCHES = "def patch():\n    utils.has_triton = mine\n    setattr(_triton, 'has_triton', mine)\n"
FOUND = {"torch._dynamo.utils.has_triton": 1, "torch.utils._triton.has_triton": 2}


def _assignments(text: str) -> list[Assignment]:
    tree = parse_around(text, "has_triton")
    assert tree is not None
    return list(attribute_assignments(text, tree, "has_triton"))


@pytest.mark.parametrize(
    "before",
    [
        "",
        UNRELATED,
        UNRELATED + "class Other:\n    x = 1\n\n    async def f(self):\n        pass\n\n\n",
        # A string whose lines reach column 0, which look like the end of the function that it is in.
        'def text():\n    return """\ndef has_nothing():\n    pass\n"""\n\n\n',
        'def text():\n    return """\n"""\n\n\ndef more():\n    return """\n"""\n\n\n',
        # A decorator over several lines cannot be cut off with its function.
        "@decorated(\n    1,\n)\ndef before(\n    value,\n):\n    return value\n\n\n",
    ],
    ids=["nothing", "function", "class", "string", "two strings", "long decorator"],
)
def test_assignments_are_found_on_their_lines(before: str) -> None:
    text = IMPORTS + before + PATCHES
    first = text[: text.index(PATCHES)].count("\n") + 1
    assert _assignments(text) == [Assignment(target, first + line) for target, line in FOUND.items()]


@pytest.mark.parametrize(
    "statement",
    [
        "[setattr(module, 'has_triton', f) for module in modules]",
        "run(\n    lambda: setattr(module, 'has_triton', f)\n)",
        "if setattr(module, 'has_triton', f):\n    pass",
    ],
    ids=["comprehension", "lambda", "condition"],
)
def test_an_assignment_inside_an_expression_is_found(statement: str) -> None:
    assert [item.target for item in _assignments(f"import a.module as module\n{statement}\n")] == [
        "a.module.has_triton"
    ]


def test_what_does_not_mention_the_name_is_not_parsed() -> None:
    tree = parse_around(IMPORTS + UNRELATED + PATCHES, "has_triton")
    assert tree is not None
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] == ["patch"]


def test_what_is_no_python_is_none() -> None:
    assert parse_around("def has_triton(:\n", "has_triton") is None
