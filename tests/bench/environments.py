"""The environments that are measured: real torch, torch-npu and triton-ascend, and others up to the number asked.

The real ones come from the cache that the tests use. The others have what tools read of a distribution, in the amounts
that a large environment has: METADATA with a description, Requires-Dist that hold, a RECORD of 10 to 700 files. Of the
files themselves only a few lie there, as nobody opens them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import real_environments

#: The chain itself. None of it is imported by `flexdoctor check`; `torch.utils.collect_env` imports torch.
CHAIN = ("triton-ascend==3.2.0", "pybind11==3.0.1", "pip")
#: Changed with what is generated here, so that an older folder in the cache is not taken for this one.
SHAPE = 1


def environment(count: int) -> Path:
    """Return a virtual environment that shows `count` distributions, made once."""
    folder = real_environments.cache() / f"bench-{SHAPE}-{sys.version_info.minor}-{count}"
    if not folder.exists():
        base = real_environments.environment(f"bench-{SHAPE}-{sys.version_info.minor}-base", CHAIN)
        half = folder.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(base, half, symlinks=True)
        site = real_environments.site_of(half)
        there = sum(len(list(place.glob("*.dist-info"))) for place in (site, real_environments.torch_site()))
        for number in range(count - there):
            _install(site, number, count - there)
        half.rename(folder)
    return folder


def sites_of(environment: Path) -> tuple[Path, Path]:
    """Return the folders in which the packages of an environment lie."""
    return real_environments.site_of(environment), real_environments.torch_site()


def _install(site: Path, number: int, count: int) -> None:
    name, module = f"part-{number:04}", f"part_{number:04}"
    info = site / f"{module}-{1 + number % 5}.{number % 11}.{number % 3}.dist-info"
    (site / module).mkdir()
    (site / module / "__init__.py").write_text(f'"""Part {number}."""\n')
    info.mkdir()
    version = info.name.removesuffix(".dist-info").partition("-")[2]
    others = [f"part-{(number * 7 + step) % count:04}" for step in range(1, number % 6)]
    header = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: part {number} of a large environment",
        f"Project-URL: Homepage, https://example.invalid/{name}",
        "Author-email: Somebody <somebody@example.invalid>",
        "License-Expression: Apache-2.0",
        *(f"Classifier: Programming Language :: Python :: 3.{minor}" for minor in range(9, 15)),
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
        *(f"Requires-Dist: {other}>=0.{step}" for step, other in enumerate(others)),
        *(f'Requires-Dist: {other}>=0.1; python_version >= "3.9"' for other in others[:1]),
        *(f'Requires-Dist: tool-{step}>=2.{step}; extra == "test"' for step in range(number % 9)),
    ]
    line = f"Part {number} does one thing and is described at the usual length, with an example.\n"
    (info / "METADATA").write_text("\n".join(header) + "\n\n" + line * (20 + number * 13 % 180), encoding="utf-8")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "INSTALLER").write_text("pip\n")
    digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    files = 700 if number % 50 == 49 else 10 + number * 17 % 110
    rows = [f"{module}/inner_{file % 7}/file_{file:03}.py,sha256={digest},{1000 + file}" for file in range(files)]
    own = [f"{info.name}/{file},sha256={digest},100" for file in ("INSTALLER", "METADATA", "WHEEL")]
    (info / "RECORD").write_text("\n".join([f"{module}/__init__.py,sha256={digest},20", *rows, *own]) + "\n")
