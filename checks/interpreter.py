"""Link 1: do the interpreter and the machine's toolchain fit the packages that lie beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.tags import Tag, parse_tag

from flexdoctor.chain import Check
from flexdoctor.checks._words import metadata, unreadable
from flexdoctor.facts import Facts, ToolchainFacts
from flexdoctor.findings import CAPABILITIES, COMPILED, Evidence, Fault, Finding, found, passed, skipped, unknown
from flexdoctor.knowledge.toolchain import libstdcxx_floor
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
NO_CXX = Fault(
    "FD104",
    Text(
        "there is no C++ compiler: triton builds its launcher with clang++ or g++",
        "没有 C++ 编译器：triton 需要 clang++ 或 g++ 编译 launcher",
    ),
    affects=COMPILED,
    blocks=False,
)
WRONG_CC = Fault(
    "FD105",
    Text(
        "CC is {cc}, {what}; triton takes it for its C++ compiler",
        "CC 为 {cc}，{what_zh}；而 triton 把它当作 C++ 编译器使用",
    ),
    affects=COMPILED,
    blocks=False,
)
NO_HEADERS = Fault(
    "FD106",
    Text(
        "Python.h of Python {version} is missing: triton cannot build its launcher",
        "缺少 Python {version} 的 Python.h：triton 无法编译 launcher",
    ),
    affects=COMPILED,
    blocks=False,
)
OLD_GLIBC = Fault(
    "FD107",
    Text(
        "{package} needs glibc {wanted}, this system has {glibc}",
        "{package} 需要 glibc {wanted}，而本系统为 {glibc}",
    ),
    affects=CAPABILITIES,
)
OLD_LIBSTDCXX = Fault(
    "FD108",
    Text(
        "libstdc++.so.6.0.{here} is older than {package} may ask for (6.0.{wanted})",
        "libstdc++.so.6.0.{here} 早于 {package} 可能需要的 6.0.{wanted}",
    ),
    severity="warning",
    blocks=False,
)

#: Names of C compilers, with or without a target before and a version behind.
_C_COMPILER = re.compile(r"(?:.*-)?(?:gcc|cc|clang)(?:-[\d.]+)?")
_CHAIN = ("torch", "torch-npu", "triton-ascend")


def examine(facts: Facts) -> Iterator[Finding]:
    """Compare the wheel tags of the chain's packages with the interpreter and the system, and look for a compiler."""
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
    mismatches = [*_other_python(facts), *_other_architecture(facts), *_toolchain(facts)]
    yield from mismatches
    if any(item.blocks for item in mismatches) or interpreter.unread:
        return
    if interpreter.version is None:
        yield skipped(LINK, Text("a bare folder does not tell its interpreter", "仅凭软件包目录无法得知其解释器"))
        return
    name = "CPython" if interpreter.implementation == "cpython" else interpreter.implementation or "Python"
    toolchain = facts.machine.toolchain if facts.machine else None
    glibc = f"glibc {toolchain.glibc}" if toolchain and toolchain.glibc else None
    cxx = toolchain.cc_path or toolchain.cxx if toolchain else None
    parts = [f"{name} {interpreter.version}", interpreter.architecture, glibc, cxx.rpartition("/")[2] if cxx else None]
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


def _toolchain(facts: Facts) -> Iterator[Finding]:
    toolchain = facts.machine.toolchain if facts.machine else None
    if facts.machine is None or toolchain is None:
        return
    yield from _system_libraries(facts, toolchain)
    # Kernels are built where there is an NPU or a toolkit; elsewhere a missing compiler is nobody's fault.
    if facts.triton.ascend_backend is None or not (facts.machine.cann or facts.machine.device_nodes):
        return
    yield from _compiler(toolchain)
    if toolchain.python_header is None and toolchain.python_header_looked:
        version = facts.interpreter.version or ""
        minor = ".".join(version.split(".")[:2])
        yield found(
            LINK,
            NO_HEADERS,
            version=version,
            evidence=[Evidence("file", "no such file", path=path) for path in toolchain.python_header_looked],
            predicted_errors=["fatal error: Python.h: No such file or directory"],
            remedy=Text(
                "install the headers of this Python: apt install python{minor}-dev, or dnf install python{minor}-devel "
                "(conda and python.org builds bring them)",
                "安装此 Python 的头文件：apt install python{minor}-dev 或 dnf install python{minor}-devel"
                "（conda 与官方构建自带）",
            ).format(minor=minor),
        )


def _compiler(toolchain: ToolchainFacts) -> Iterator[Finding]:
    install = Text(
        "install g++ (apt install g++, or dnf install gcc-c++), or set CC to a C++ compiler",
        "安装 g++（apt install g++ 或 dnf install gcc-c++），或将 CC 指向 C++ 编译器",
    )
    if toolchain.cc is None:
        if toolchain.cxx is None and not toolchain.path_known:
            yield unknown(
                LINK,
                NO_CXX,
                Text(
                    "could not tell whether there is a C++ compiler: none in the usual folders, and the PATH of the "
                    "image is not known (--env PATH=...)",
                    "无法判断是否有 C++ 编译器：常用目录中没有，而镜像的 PATH 未知（--env PATH=...）",
                ),
                affects=(),
            )
        elif toolchain.cxx is None:
            yield found(
                LINK,
                NO_CXX,
                evidence=[Evidence("variable", "CC is not set, and no folder of PATH has clang++ or g++")],
                predicted_errors=["RuntimeError: Failed to find C++ compiler"],
                remedy=install,
            )
        return
    name = toolchain.cc.rpartition("/")[2]
    is_c = _C_COMPILER.fullmatch(name) is not None
    if toolchain.cc_path is not None and not is_c:
        return
    if toolchain.cc_path is None and not toolchain.path_known:
        return
    yield found(
        LINK,
        WRONG_CC,
        cc=repr(toolchain.cc),
        what="a C compiler, which does not link C++" if is_c else "which is no program",
        what_zh="是 C 编译器，不会链接 C++ 标准库" if is_c else "不是可执行程序",
        evidence=[Evidence("variable", f"CC={toolchain.cc}")],
        remedy=Text("unset CC, or: export CC={cxx}", "unset CC，或 export CC={cxx}").format(cxx=toolchain.cxx)
        if toolchain.cxx
        else install,
    )


def _system_libraries(facts: Facts, toolchain: ToolchainFacts) -> Iterator[Finding]:
    """Compare glibc and libstdc++ with what the manylinux tags of the wheels promise to need at most."""
    for dist in facts.packages.distributions:
        floors = [
            (int(match[1]), int(match[2]))
            for tag in dist.tags
            for match in [re.search(r"manylinux_(\d+)_(\d+)_", tag.rpartition("-")[2])]
            if match
        ]
        if dist.name not in _CHAIN or not floors:
            continue
        major, minor = min(floors)
        package, wanted = f"{dist.name} {dist.version}", f"{major}.{minor}"
        here = re.match(r"(\d+)\.(\d+)", toolchain.glibc or "")
        if here and (int(here[1]), int(here[2])) < (major, minor):
            yield found(
                LINK,
                OLD_GLIBC,
                package=package,
                wanted=wanted,
                glibc=toolchain.glibc,
                evidence=[
                    *(metadata(dist, f"WHEEL Tag: {tag}") for tag in dist.tags),
                    Evidence("file", f"glibc {toolchain.glibc}", path=toolchain.glibc_from),
                ],
                predicted_errors=[f"ImportError: ... version `GLIBC_{wanted}' not found"],
                remedy=Text(
                    "use a system or a container image with glibc {wanted} or newer",
                    "请使用 glibc 不低于 {wanted} 的系统或容器镜像",
                ).format(wanted=wanted),
            )
            continue
        floor = libstdcxx_floor(major, minor) if toolchain.libstdcxx is not None else None
        if floor is not None and toolchain.libstdcxx is not None and toolchain.libstdcxx < floor:
            yield found(
                LINK,
                OLD_LIBSTDCXX,
                here=toolchain.libstdcxx,
                package=package,
                wanted=floor,
                evidence=[Evidence("file", f"libstdc++.so.6.0.{toolchain.libstdcxx}", path=toolchain.libstdcxx_from)],
                predicted_errors=[f"ImportError: ... version `GLIBCXX_3.4.{floor}' not found"],
                remedy=Text(
                    "bring a newer libstdc++ (conda: conda install -c conda-forge libstdcxx-ng), or use a newer system",
                    "安装更新的 libstdc++（conda：conda install -c conda-forge libstdcxx-ng），或使用更新的系统",
                ),
            )


CHECK = Check(
    link=LINK,
    title=Text("interpreter", "解释器"),
    question=Text(
        "Is this the Python, and the system, for which the packages were built, with what triton compiles by?",
        "软件包是否面向此 Python 与此系统构建，triton 所需的编译环境是否齐备？",
    ),
    faults=(
        OTHER_PYTHON,
        OTHER_ARCHITECTURE,
        NO_EXECUTABLE,
        NO_CXX,
        WRONG_CC,
        NO_HEADERS,
        OLD_GLIBC,
        OLD_LIBSTDCXX,
    ),
    examine=examine,
    pages=Path(__file__).with_suffix(".toml"),
)
