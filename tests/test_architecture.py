"""Rules that keep the structure: who may import whom, what the wheel must hold, which words stay out."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
FOLDERS = {"doctor": "flexdoctor", "checks": "flexdoctor.checks", "fixes": "flexdoctor.fixes"}


def modules() -> Iterator[tuple[str, Path]]:
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def allowed_in_checks() -> tuple[str, ...]:
    return ("chain", "checks", "facts", "findings", "frozen", "hub_facts", "knowledge", "places", "serialise", "text")


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_follow_the_layers(name: str, path: Path) -> None:
    own = {item for item in imports(path) if item.startswith("flexdoctor.")}
    layers = {item.split(".")[1] for item in own}
    is_command = name.startswith("flexdoctor.commands")
    assert not is_command or "cli" not in layers
    assert not {"doctor", "checks", "fixes"} & {item.split(".")[0] for item in imports(path)}
    # The commands and the pytest plugin put the parts together; nothing else knows them all.
    if name not in ("flexdoctor.cli", "flexdoctor.__main__", "flexdoctor.pytest_plugin") and not is_command:
        assert not layers & {"cli", "commands"}
        assert "fixes" not in layers or name.startswith("flexdoctor.fixes")
        assert "checks" not in layers or name.startswith("flexdoctor.checks")
    if name.startswith("flexdoctor.checks"):
        assert layers <= set(allowed_in_checks())
    if name.startswith("flexdoctor.fixes"):
        assert layers <= {*allowed_in_checks(), "fixes", "treatment"}
    if name.startswith("flexdoctor.reports"):
        assert not layers & {"readers", "targets", "snapshots"}
    if name.startswith("flexdoctor.readers"):
        assert not layers & {"chain", "findings", "reports", "targets"}


def test_every_package_with_code_or_data_is_in_the_wheel() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {name for name, path in modules() if path.name == "__init__.py"}
    # setuptools takes a folder of data for a package, too.
    assert set(setuptools["packages"]) - found == {"flexdoctor.knowledge.examples", "flexdoctor.knowledge.versions"}
    assert found <= set(setuptools["packages"])
    for folder, package in FOLDERS.items():
        shipped = {
            path
            for name, patterns in setuptools["package-data"].items()
            if name == package or (name.startswith(f"{package}.") and name not in FOLDERS.values())
            for pattern in patterns
            for path in (ROOT / folder / name[len(package) + 1 :].replace(".", "/")).glob(pattern)
        }
        data = {
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix in (".json", ".toml", ".css", ".js")
        }
        assert data <= shipped, f"not in the wheel: {sorted(map(str, data - shipped))}"


def test_versions_are_data_and_not_code() -> None:
    version = re.compile(r"\b(?:[23]\.\d{1,2}\.\d+(?:\.post\d+)?|\d\.\d\.RC\d)\b")
    for name, path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                assert not version.search(node.value), f"{name}:{node.lineno} holds a version: {node.value!r}"


def _has_docstring(node: ast.AST) -> bool:
    body = getattr(node, "body", None)
    return bool(
        isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
    )


@pytest.mark.parametrize("command", [["--help"], ["check", "--help"], ["list", "checks"]])
def test_no_module_is_loaded_under_a_generic_name(command: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['flexdoctor', *{command!r}]\n"
        "from flexdoctor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "bad = {'doctor', 'checks', 'fixes', 'torch', 'triton', 'torch_npu'} & {m.split('.')[0] for m in sys.modules}\n"
        "assert not bad, bad\n"
        "assert 'huggingface_hub' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
