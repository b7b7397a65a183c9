"""Stand-in wheels with the shape of the real ones, a folder or an index that serves them, and real environments."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import builders

#: What keeps the configuration of the machine that runs the tests out of them.
INSTALLER_SETTINGS = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_NO_CONFIG": "1"}


def wheel(house: Path, lay: Callable[[Path], object], extra: Mapping[str, str] = {}) -> Path:
    """Pack what `lay` installs into a wheel for any platform."""
    with TemporaryDirectory() as folder:
        site = Path(folder)
        lay(site)
        (info,) = site.glob("*.dist-info")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        for name, content in extra.items():
            path = site / name.replace("INFO", info.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        files = sorted(path for path in site.rglob("*") if path.is_file() and path.name != "RECORD")
        record = "".join(
            f"{path.relative_to(site)},sha256={builders.digest(path.read_bytes())},{path.stat().st_size}\n"
            for path in files
        )
        (info / "RECORD").write_text(f"{record}{info.name}/RECORD,,\n")
        target = house / f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl"
        house.mkdir(parents=True, exist_ok=True)
        with ZipFile(target, "w") as archive:
            for path in (*files, info / "RECORD"):
                archive.write(path, str(path.relative_to(site)))
    return target


def torch(house: Path, version: str = "2.13.0", requires: tuple[str, ...] = (), **shape: object) -> Path:
    described = builders.TorchShape(version=version, **shape)  # type: ignore[arg-type]

    def lay(site: Path) -> None:
        builders.install_torch(site, described)
        (info,) = site.glob("*.dist-info")
        if requires:
            lines = "".join(f"Requires-Dist: {item}\n" for item in requires)
            (info / "METADATA").write_text((info / "METADATA").read_text() + lines)

    return wheel(house, lay)


def torch_npu(house: Path, version: str = "2.13.0", **shape: object) -> Path:
    described = builders.TorchNpuShape(version=version, **shape)  # type: ignore[arg-type]
    return wheel(house, lambda site: builders.install_torch_npu(site, described))


def triton_ascend(house: Path, version: str = "3.2.2", files: Mapping[str, str] | None = None) -> Path:
    return wheel(house, lambda site: builders.install_triton_ascend(site, version, files))


def triton(house: Path, version: str = "3.7.1") -> Path:
    return wheel(house, lambda site: builders.install_triton(site, version))


def package(house: Path, name: str, version: str, requires: tuple[str, ...] = (), script: str = "") -> Path:
    module = name.replace("-", "_")
    extra = {"INFO/entry_points.txt": f"[console_scripts]\n{script} = {module}:main\n"} if script else {}
    files = {f"{module}/__init__.py": "def main():\n    pass\n"}
    return wheel(house, lambda site: builders.install(site, name, version, files, requires=requires), extra)


def full_house(house: Path) -> Path:
    """Everything that the stand-in sets of the tests consist of."""
    torch(house, "2.13.0", has_triton=builders.HAS_TRITON_CAPABLE)
    torch(house, "2.7.1", gate=builders.GATE_CHAIN, has_triton=builders.HAS_TRITON_CAPABLE)
    torch_npu(house, "2.13.0", torch_pin="torch==2.13.0.*")
    torch_npu(house, "2.12.0", torch_pin="torch==2.12.0", gate=None, kernel=False)
    torch_npu(house, "2.7.1", torch_pin="torch==2.7.1", gate=None, kernel=False, helpers=builders.HELPERS_ASCEND_ONLY)
    torch_npu(house, "2.7.1.post4", torch_pin="torch==2.7.1", gate="inductor_load", handles_index=True)
    torch_npu(house, "2.7.1.post11", torch_pin="torch==2.7.1", gate="import")
    triton_ascend(house, "3.2.2")
    triton_ascend(house, "3.2.0", builders.triton_ascend_files(extra=("ascend/libdevice.py",)))
    triton(house)
    package(house, "pybind11", "3.0.1", script="pybind11-config")
    package(house, "psutil", "6.0.0")
    return house


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below `root`: kind, mode, content or target."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            key = str(path.relative_to(root))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", str(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", stat.S_IMODE(status.st_mode))
            else:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[key] = ("file", stat.S_IMODE(status.st_mode), digest, status.st_mtime_ns)
    return found


def site_of(prefix: Path) -> Path:
    return prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def clone(template: Path, prefix: Path) -> Path:
    """Copy an environment, by hard links: pip replaces files, it does not write into them."""
    shutil.copytree(template, prefix, symlinks=True, copy_function=os.link)
    return prefix


@contextmanager
def simple_index(house: Path, root: Path) -> Iterator[str]:
    """Serve the wheels of `house` as a package index on the loopback."""
    pages: dict[str, list[Path]] = {}
    for path in house.glob("*.whl"):
        pages.setdefault(path.name.split("-")[0].replace("_", "-").lower(), []).append(path)
    for name, files in pages.items():
        folder = root / "simple" / name
        folder.mkdir(parents=True)
        for path in files:
            shutil.copy(path, folder)
        links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in files)
        (folder / "index.html").write_text(f"<html><body>{links}</body></html>")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(root), **kwargs)  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


#: A pip of a few lines: what a treatment asks of pip, in a twentieth of the time, and with faults on demand. The
#: variable STANDIN_FAULT is "what:verb:distribution".
PIP = """
import csv, glob, os, shutil, signal, sys, zipfile
ignored = ("--disable-pip-version-check", "--no-input", "--no-color", "--isolated")
args = [item for item in sys.argv[1:] if item not in ignored]
verb = args[0]
site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
fault, _, scope = os.environ.get("STANDIN_FAULT", "").partition(":")
houses = [args[i + 1] for i, item in enumerate(args) if item == "--find-links"]
pin = args[-1]
name, _, version = pin.partition("==")
fault = fault if scope == verb + ":" + name else ""
stem = name.replace("-", "_")

def uninstall(part=None):
    for record in glob.glob(f"{site}/{stem}-*.dist-info/RECORD"):
        rows = [row[0] for row in csv.reader(open(record)) if row]
        for number, row in enumerate(rows):
            if number == part:
                strike()
            path = os.path.join(site, row)
            if os.path.exists(path):
                os.unlink(path)
        for folder in sorted({os.path.dirname(os.path.join(site, row)) for row in rows}, key=len, reverse=True):
            while folder != site and os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
                folder = os.path.dirname(folder)

def strike():
    if fault == "kill":
        os.killpg(0, signal.SIGKILL)
    if fault == "term":
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()
    if fault == "fail":
        print("ERROR: the stand-in was told to fail")
        sys.exit(1)
    if fault == "lock":
        os.rename(os.path.join(site, "torch_npu"), os.path.join(site, "torch_npu_moved"))
        print("ERROR: permission lost")
        sys.exit(1)

if verb == "download":
    target = args[args.index("--dest") + 1]
    found = [path for house in houses for path in glob.glob(f"{house}/{stem}-{version}-*.whl")]
    if not found or fault == "absent":
        print(f"ERROR: No matching distribution found for {pin}")
        sys.exit(1)
    shutil.copy(found[0], target)
elif verb == "uninstall":
    if fault != "idle":
        uninstall(2)
else:
    if fault == "other":
        (wheel,) = glob.glob(os.environ["STANDIN_OTHER"])
    else:
        wheel = [path for house in houses for path in glob.glob(f"{house}/{stem}-{version}-*.whl")][0]
    if fault == "beside":
        os.makedirs(f"{site}/beside-1.0.dist-info")
        open(f"{site}/beside-1.0.dist-info/METADATA", "w").write("Name: beside\\nVersion: 1.0\\n")
    uninstall()
    with zipfile.ZipFile(wheel) as archive:
        for number, member in enumerate(archive.namelist()):
            if number == 3:
                strike()
            archive.extract(member, site)
"""


def quick_environment(prefix: Path) -> Path:
    """An environment of the running Python that has the stand-in for pip and nothing else."""
    site = site_of(prefix)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    version = ".".join(str(part) for part in sys.version_info[:3])
    home = Path(sys.executable).resolve().parent
    (prefix / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n")
    builders.install(site, "pip", "99.0", {"pip/__init__.py": "", "pip/__main__.py": PIP})
    return site


def unpack(site: Path, *wheels: Path) -> None:
    """Install wheels by unpacking them, in order."""
    for path in wheels:
        with ZipFile(path) as archive:
            archive.extractall(site)


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The paths that are not the same, the journal's own aside."""
    paths = {*before, *after}
    return sorted(
        path for path in paths if before.get(path) != after.get(path) and path.partition("/")[0] != ".flexdoctor"
    )
