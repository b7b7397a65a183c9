"""Link 1: does the interpreter fit the packages that lie beside it."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.tags import Tag, parse_tag

from flexdoctor.chain import Check
from flexdoctor.checks._words import metadata, unreadable
from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Fault, Finding, found, passed, skipped
from flexdoctor.text import Text

LINK = "interpreter"

OTHER_PYTHON = Fault(
    "FD101",
    Text(
        "{package} was built for Python {built}, this environment runs {version}",
        "{package} 面向 Python {built} 构建，而此环境运行的是 {version}",
    ),
    affects=CAPABILITIES,
)
OTHER_ARCHITECTURE = Fault(
    "FD102",
    Text(
        "{package} was built for {built}, this environment is {architecture}",
        "{package} 面向 {built} 构建，而此环境是 {architecture}",
    ),
    affects=CAPABILITIES,
)
NO_EXECUTABLE = Fault(
    "FD103",
    Text(
        "this environment's python is missing or a dangling link",
        "此环境的 python 不存在，或是失效的符号链接",
    ),
    affects=CAPABILITIES,
)


def examine(facts: Facts) -> Iterator[Finding]:
    """Compare the wheel tags of the chain's packages with the interpreter."""
    interpreter = facts.interpreter
    if facts.target.is_planned:
        yield passed(
            LINK,
            Text("planned for Python {python} on linux {arch}", "计划用于 Python {python} / linux {arch}").format(
                python=interpreter.version, arch=interpreter.architecture
            ),
        )
        return
    if interpreter.unread:
        yield found(
            LINK,
            NO_EXECUTABLE,
            evidence=unreadable(interpreter.unread),
            remedy=Text(
                "recreate the environment: its base interpreter was moved or removed",
                "请重建该环境：其基础解释器已被移动或删除",
            ),
        )
    mismatches = [*_other_python(facts), *_other_architecture(facts)]
    yield from mismatches
    if mismatches or interpreter.unread:
        return
    if interpreter.version is None:
        yield skipped(LINK, Text("a bare folder does not tell its interpreter", "裸目录无法说明其解释器"))
        return
    name = "CPython" if interpreter.implementation == "cpython" else interpreter.implementation or "Python"
    parts = [f"{name} {interpreter.version}", interpreter.architecture]
    yield passed(LINK, Text(*[", ".join(part for part in parts if part)] * 2))


def _tags(tags: tuple[str, ...]) -> set[Tag]:
    return {tag for text in tags if text.count("-") == 2 for tag in parse_tag(text)}


def _other_python(facts: Facts) -> Iterator[Finding]:
    version = facts.interpreter.version
    if version is None or facts.interpreter.implementation != "cpython":
        return
    here = "".join(version.split(".")[:2])
    for dist in facts.packages.distributions:
        built = {tag.interpreter for tag in _tags(dist.tags) if tag.abi != "abi3"}
        if not built or any(name in (f"cp{here}", "py3", f"py{here}", "py2") for name in built):
            continue
        pretty = ", ".join(sorted(f"{name[2]}.{name[3:]}" for name in built if name.startswith("cp"))) or ", ".join(
            built
        )
        yield found(
            LINK,
            OTHER_PYTHON,
            package=f"{dist.name} {dist.version}",
            built=pretty,
            version=version,
            evidence=[metadata(dist, f"WHEEL Tag: {tag}") for tag in dist.tags],
            remedy=Text(
                "install it with this environment's own pip: {python} -m pip install {name}=={number}",
                "请用此环境自己的 pip 安装：{python} -m pip install {name}=={number}",
            ).format(python=facts.interpreter.executable or "python", name=dist.name, number=dist.version),
        )


def _other_architecture(facts: Facts) -> Iterator[Finding]:
    architecture = facts.interpreter.architecture
    if architecture is None:
        return
    for dist in facts.packages.distributions:
        platforms = {tag.platform for tag in _tags(dist.tags)}
        if not platforms or "any" in platforms or any(name.endswith(architecture) for name in platforms):
            continue
        yield found(
            LINK,
            OTHER_ARCHITECTURE,
            package=f"{dist.name} {dist.version}",
            built=", ".join(sorted(platforms)),
            architecture=architecture,
            evidence=[metadata(dist, f"WHEEL Tag: {tag}") for tag in dist.tags],
            remedy=Text(
                "reinstall {name} on this machine instead of copying it",
                "请在本机重新安装 {name}，不要从其他架构拷贝",
            ).format(name=dist.name),
        )


CHECK = Check(
    link=LINK,
    title=Text("interpreter", "解释器"),
    question=Text(
        "Is this the Python, and the machine, for which the packages were built?",
        "软件包是否面向此 Python 与此架构构建？",
    ),
    faults=(OTHER_PYTHON, OTHER_ARCHITECTURE, NO_EXECUTABLE),
    examine=examine,
)
