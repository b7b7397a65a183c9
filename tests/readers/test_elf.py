"""The ELF comparison on small libraries that a C++ compiler makes here, with the names of the real ones."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import cann_trees as trees
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import CannInstallation, LinkageFacts
from flexdoctor.readers.elf import read_linkage
from flexdoctor.readers.rooted import Root

pytest.importorskip("elftools", reason="the extra `deep` is not installed")
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to make libraries with")

TORCH = "_ZN2at6Tensor4copyEv"
NEWER = "_ZN3c1013GeneratorImpl12philox_stateEv"
CANN = "aclrtSynchronizeDevice"


def library(
    path: Path, defines: Iterable[str] = (), uses: Iterable[str] = (), needs: Iterable[str] = (), *, flags: str = ""
) -> Path:
    """Compile a shared library that defines and uses these symbols and asks for these libraries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    uses = list(uses)
    lines = [f"int {name}(void) {{ return 0; }}" for name in defines]
    lines += [f"extern int {name}(void);" for name in uses]
    calls = " + ".join(f"{name}()" for name in uses) or "0"
    lines.append(f"int entry_of_{path.name.partition('.')[0]}(void) {{ return {calls}; }}")
    source = trees.write(path.with_suffix(".c"), "\n".join(lines))
    stubs = path.parent / "stubs"
    command = ["gcc", "-shared", "-fPIC", "-o", str(path), str(source), f"-Wl,-soname,{path.name}"]
    for name in needs:
        empty = stubs / name
        if not empty.exists():
            stubs.mkdir(exist_ok=True)
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(empty), f"-Wl,-soname,{name}"],
                check=True,
            )
        command += ["-Wl,--no-as-needed", str(empty)]
    subprocess.run([*command, *flags.split()], check=True)
    shutil.rmtree(stubs, ignore_errors=True)
    return path


def lay_torch(site: Path, *, symbols: Iterable[str] = (TORCH,), flags: str = "") -> Path:
    folder = site / "torch/lib"
    library(folder / "libtorch_cpu.so", symbols, flags=flags)
    for name in ("libc10.so", "libtorch.so", "libtorch_python.so"):
        library(folder / name)
    return site / "torch"


def lay_npu(site: Path, *, uses: Iterable[str] = (TORCH, CANN)) -> Path:
    needs = ("libtorch_cpu.so", "libc10.so", "libtorch.so", "libtorch_python.so", "libascendcl.so")
    library(site / "torch_npu/lib/libtorch_npu.so", uses=uses, needs=needs)
    return site / "torch_npu"


def lay_cann(folder: Path, *, symbols: Iterable[str] = (CANN,), deeper: Iterable[str] = ()) -> CannInstallation:
    library(folder / "lib64/libruntime.so", deeper)
    library(folder / "lib64/libascendcl.so", symbols, needs=["libruntime.so", "libascend_hal.so"])
    return CannInstallation(str(folder), "8.5.0", None)


def compare(torch: Path, npu: Path, *cann: CannInstallation) -> LinkageFacts:
    facts = read_linkage(torch, npu, cann, "", Root())
    assert facts is not None
    return facts


def symbols(facts: LinkageFacts) -> list[tuple[str, str]]:
    return [(gap.side, gap.symbol) for gap in facts.gaps]


def test_everything_exported(tmp_path: Path) -> None:
    facts = compare(lay_torch(tmp_path), lay_npu(tmp_path), lay_cann(tmp_path / "cann"))
    assert (facts.missing, facts.absent, facts.unread) == ({}, (), ())
    assert facts.needed_symbols == 2
    assert facts.found["libascendcl.so"].endswith("/cann/lib64/libascendcl.so")


def test_symbol_that_this_torch_lacks(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path, uses=(TORCH, NEWER, CANN))
    facts = compare(torch, npu, lay_cann(tmp_path / "cann"))
    assert symbols(facts) == [("torch", NEWER)]
    assert facts.missing == {"torch": 1}


def test_symbol_that_this_cann_lacks(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path, uses=(TORCH, CANN, "aclNewer"))
    assert symbols(compare(torch, npu, lay_cann(tmp_path / "cann"))) == [("cann", "aclNewer")]


def test_symbol_in_a_library_below_the_one_that_is_asked_for(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path, uses=(TORCH, CANN, "MsprofSysCycleTime"))
    assert compare(torch, npu, lay_cann(tmp_path / "cann", deeper=["MsprofSysCycleTime"])).missing == {}


def test_without_cann_only_torch_is_judged(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path, uses=(TORCH, NEWER, CANN))
    facts = compare(torch, npu)
    assert symbols(facts) == [("torch", NEWER)]
    assert facts.absent == ("libascendcl.so",)


def test_library_path_goes_before_a_toolkit_that_is_not_sourced(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path)
    lay_cann(tmp_path / "old", symbols=["something_else"])
    installed = lay_cann(tmp_path / "new")
    facts = read_linkage(torch, npu, [installed], f"{tmp_path}/old/lib64", Root())
    assert facts is not None
    assert symbols(facts) == [("cann", CANN)]


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
def test_either_kind_of_hash_table(tmp_path: Path, style: str) -> None:
    torch = lay_torch(tmp_path, flags=f"-Wl,--hash-style={style}")
    assert symbols(compare(torch, lay_npu(tmp_path, uses=(TORCH, NEWER)))) == [("torch", NEWER)]


def test_library_of_the_c_runtime_and_of_python_is_not_ours_to_judge(tmp_path: Path) -> None:
    torch = lay_torch(tmp_path)
    npu = lay_npu(tmp_path, uses=(TORCH, "PyList_New", "_PyObject_New", "getpid", "dlopen", "pthread_create"))
    assert compare(torch, npu, lay_cann(tmp_path / "cann")).missing == {}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + b"\x02\x01\x01" + b"\xff" * 500, b"text"])
def test_broken_library_is_a_note(tmp_path: Path, content: bytes) -> None:
    torch, npu = lay_torch(tmp_path), tmp_path / "torch_npu"
    (npu / "lib").mkdir(parents=True)
    (npu / "lib/libtorch_npu.so").write_bytes(content)
    assert compare(torch, npu).unread


def test_truncated_library_is_a_note_not_a_traceback(tmp_path: Path) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path)
    whole = (npu / "lib/libtorch_npu.so").read_bytes()
    for part in range(64, len(whole), len(whole) // 7):
        (npu / "lib/libtorch_npu.so").write_bytes(whole[:part])
        facts = compare(torch, npu)
        assert facts.unread or facts.missing == {}


@pytest.mark.parametrize("victim", ["torch_npu/lib/libtorch_npu.so", "torch/lib/libtorch_cpu.so"])
def test_damage_anywhere_is_never_a_traceback(tmp_path: Path, victim: str) -> None:
    torch, npu = lay_torch(tmp_path), lay_npu(tmp_path)
    whole = (tmp_path / victim).read_bytes()
    for start in range(0, len(whole), 1021):
        for filler in (b"\0", b"\xff"):
            (tmp_path / victim).write_bytes(whole[:start] + filler * 64 + whole[start + 64 :])
            read_linkage(torch, npu, [], "", Root())


def test_from_files_to_verdict_on_a_fake_root(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.5.0", libraries=(), inner="V100R001C25")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.7.1.post4", torch="2.7.1", triton="3.2.0")
    lay_torch(machine.site)
    lay_npu(machine.site, uses=(TORCH, CANN, "aclNewer"))
    place = machine.root / f"{trees.INSTALL}/cann-8.5.0/aarch64-linux".lstrip("/")
    lay_cann(place)
    report = diagnose(machine.facts(deep=True), CHAIN)
    item = trees.finding(report, "FD146")
    assert "symbols (1)" in item.title.en
    assert "undefined symbol: aclNewer" in item.predicted_errors[0]
    lay_cann(place, symbols=[CANN, "aclNewer"])
    assert trees.codes(machine.report(deep=True)) == ["FD142"]
