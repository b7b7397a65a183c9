"""The ELF comparison on the libraries of published wheels: made for each other, and not.

What is expected does not come from our reader: the linker's own view is asked through `nm`, and that torch-npu 2.13.0
loads beside torch 2.13.0 is what everyone runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flexdoctor.facts import CannInstallation, LinkageFacts
from flexdoctor.readers.elf import read_linkage
from flexdoctor.readers.rooted import Root

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("nm") is None, reason="no binutils to check against"),
]
pytest.importorskip("elftools", reason="the extra `deep` is not installed")

CANN_LIBRARIES = {"libhccl.so", "libascendcl.so", "libge_runner.so"}


def cache() -> Path:
    return Path(os.environ.get("FLEXDOCTOR_TEST_CACHE") or Path.home() / ".cache/flexdoctor-tests") / "wheels"


def wheel(name: str, version: str, platform: str) -> Path:
    """Return a wheel, from the cache of all real tests or from the package index."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{name.replace('-', '_')}-{version}*cp311-*{platform}.whl"
    found = [item for item in sorted(folder.glob(pattern)) if _version(item) == version]
    if not found:
        options = ["--only-binary=:all:", "--python-version=3.11", f"--platform=manylinux_2_28_{platform}"]
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), f"{name}=={version}"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = [item for item in sorted(folder.glob(pattern)) if _version(item) == version]
    return found[0]


def _version(path: Path) -> str:
    return path.name.split("-")[1].partition("+")[0]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheels")


def libraries(unpacked: Path, name: str, version: str, platform: str) -> Path:
    """Unpack the shared objects of a wheel once, and return the folder of its package."""
    module = name.replace("-", "_")
    place = unpacked / f"{module}-{version}-{platform}"
    if not place.exists():
        with zipfile.ZipFile(wheel(name, version, platform)) as archive:
            for item in archive.namelist():
                if item.startswith(f"{module}/") and ".so" in item:
                    archive.extract(item, place)
    return place / module


def compare(torch: Path, npu: Path) -> LinkageFacts:
    facts = read_linkage(torch, npu, (), "", Root())
    assert facts is not None
    return facts


def nm(*options: str) -> set[str]:
    text = subprocess.run(["nm", "-D", *options], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    # A weak reference (w, v) may stay open; the loader does not mind.
    names = {row[-1] for row in rows if len(row) > 1 and row[-2] not in ("w", "v")}
    return {name.partition("@")[0] for name in names}


def missing_by_nm(torch: Path, npu: Path) -> set[str]:
    """Symbols with a torch namespace that torch-npu needs and none of torch's nor its own libraries has."""
    patients = [npu / "lib/libtorch_npu.so", npu / "lib/libnpu_profiler.so", *npu.glob("_C*.so")]
    needed = set().union(*(nm("--undefined-only", str(path)) for path in patients if path.exists()))
    offered = set().union(
        *(nm("--defined-only", str(path)) for path in [*torch.glob("lib/lib*.so"), *npu.glob("lib/*.so")])
    )
    return {symbol for symbol in needed - offered if any(part in symbol for part in ("2at", "3c10", "5torch"))}


@pytest.mark.parametrize(("torch", "npu"), [("2.13.0", "2.13.0"), ("2.13.0", "2.14.0")])
def test_x86_64(unpacked: Path, torch: str, npu: str) -> None:
    check(unpacked, torch, npu, "x86_64")


@pytest.mark.parametrize(
    ("torch", "npu"), [("2.7.1", "2.7.1"), ("2.9.0", "2.9.0"), ("2.9.0", "2.7.1"), ("2.7.1", "2.9.0")]
)
def test_aarch64(unpacked: Path, torch: str, npu: str) -> None:
    check(unpacked, torch, npu, "aarch64")


def check(unpacked: Path, torch: str, npu: str, platform: str) -> None:
    torch_folder = libraries(unpacked, "torch", torch, platform)
    npu_folder = libraries(unpacked, "torch-npu", npu, platform)
    facts = compare(torch_folder, npu_folder)
    assert facts.unread == ()
    assert set(facts.absent) >= CANN_LIBRARIES  # no CANN here: its side is not judged
    assert facts.needed_symbols > 1000
    expected = missing_by_nm(torch_folder, npu_folder)
    assert facts.missing == ({"torch": len(expected)} if expected else {})
    assert {gap.symbol for gap in facts.gaps} <= expected
    assert bool(expected) is (torch != npu)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to make a stand-in CANN with")
def test_cann_side_of_the_real_library(unpacked: Path, tmp_path: Path) -> None:
    """A stand-in CANN that exports what nm says is open, and the same without one symbol."""
    torch = libraries(unpacked, "torch", "2.13.0", "x86_64")
    npu = libraries(unpacked, "torch-npu", "2.13.0", "x86_64")
    absent = compare(torch, npu).absent
    patients = [npu / "lib/libtorch_npu.so", npu / "lib/libnpu_profiler.so", *npu.glob("_C*.so")]
    offered = [*torch.glob("lib/lib*.so"), *npu.glob("lib/*.so")]
    missing = set().union(*(nm("--undefined-only", str(path)) for path in patients))
    missing -= set().union(*(nm("--defined-only", str(path)) for path in offered))
    # The rest is the C library's: some of it without a version (dlopen), which must not be taken for CANN's.
    wanted = sorted(symbol for symbol in missing if re.match(r"acl|rt[A-Z]|Hccl|Hcom|Msprof|Adx|_ZNK?2ge", symbol))
    assert "aclrtSetDevice" in wanted

    def stand_in(symbols: list[str]) -> LinkageFacts | None:
        place = tmp_path / "cann/lib64"
        place.mkdir(parents=True, exist_ok=True)
        source = tmp_path / "all.c"
        source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in symbols))
        for name in absent:
            content = str(source) if name == "libascendcl.so" else "/dev/null"
            command = ["gcc", "-w", "-shared", "-fPIC", "-x", "c", content, "-o", str(place / name)]
            subprocess.run([*command, f"-Wl,-soname,{name}"], check=True)
        toolkit = CannInstallation(str(tmp_path / "cann"), "9.1.0", None)
        return read_linkage(torch, npu, [toolkit], "", Root())

    whole = stand_in(wanted)
    assert whole is not None
    assert (whole.absent, whole.missing) == ((), {})
    lacking = stand_in([name for name in wanted if name != "aclrtSetDevice"])
    assert lacking is not None
    assert [(gap.side, gap.symbol) for gap in lacking.gaps] == [("cann", "aclrtSetDevice")]
