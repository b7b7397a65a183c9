"""Who owns the triton folder: judged by recorded hashes, never by names."""

from __future__ import annotations

import shutil
from pathlib import Path

import builders

from flexdoctor.facts import TritonFacts
from flexdoctor.readers.environment import read_site_packages


def read(site: Path) -> TritonFacts:
    return read_site_packages(site).triton


def test_triton_ascend_alone(site: Path) -> None:
    builders.install_triton_ascend(site)
    facts = read(site)
    (claim,) = facts.claims
    assert (claim.name, claim.has_ascend_backend, claim.overwritten, claim.missing) == ("triton-ascend", True, 0, 0)
    assert facts.ascend_backend == "ascend"
    assert "cann.extension" in facts.extra
    assert [item.module for item in facts.missing_imports] == ["pybind11"]


def test_pybind11_beside_it(site: Path) -> None:
    builders.install_triton_ascend(site)
    builders.install(site, "pybind11", "3.0.1", {"pybind11/__init__.py": ""})
    assert read(site).missing_imports == ()


def test_upstream_written_over_triton_ascend(site: Path) -> None:
    builders.install_triton_ascend(site)
    builders.install_triton(site)
    upstream, ascend = read(site).claims
    assert (ascend.name, upstream.name) == ("triton-ascend", "triton")
    # triton/__init__.py and backends/compiler.py differ; backends/__init__.py and extra/__init__.py are the same.
    assert (ascend.shared, ascend.overwritten) == (4, 2)
    assert ascend.overwritten_sample == ("triton/__init__.py", "triton/backends/compiler.py")
    assert upstream.overwritten == 0


def test_triton_ascend_written_over_upstream_leaves_a_backend_that_does_not_load(site: Path) -> None:
    builders.install_triton(site)
    builders.install_triton_ascend(site)
    facts = read(site)
    ascend = next(claim for claim in facts.claims if claim.has_ascend_backend)
    assert ascend.overwritten == 0
    (broken,) = facts.breaks
    assert (broken.backend, broken.owner) == ("nvidia", "triton")
    assert broken.error == "ImportError: cannot import name 'Language' from 'triton.backends.compiler'"


def test_both_together_is_normal_when_the_older_backend_still_loads(site: Path) -> None:
    builders.install_triton(site, files=builders.upstream_triton_files(names_language=False))
    builders.install_triton_ascend(site)
    facts = read(site)
    assert facts.breaks == ()
    assert next(claim for claim in facts.claims if claim.has_ascend_backend).overwritten == 0


def test_a_backend_that_wants_a_name_of_the_compiled_library(site: Path) -> None:
    builders.install_triton_ascend(site)
    (site / "triton/_C").mkdir()
    (site / "triton/_C/libtriton.so").write_bytes(b"\x7fELF\0ascend\0ir\0passes\0")
    for name, wanted in (("amd", "ir, passes, amd"), ("cpu", "ir, passes")):
        (site / f"triton/backends/{name}").mkdir()
        (site / f"triton/backends/{name}/compiler.py").write_text(f"from triton._C.libtriton import {wanted}\n")
    (broken,) = read(site).breaks
    assert broken.error == "ImportError: cannot import name 'amd' from 'triton._C.libtriton'"


def test_uninstalling_one_of_two_takes_the_shared_files_along(site: Path) -> None:
    builders.install_triton_ascend(site)
    builders.install_triton(site)
    for name in builders.upstream_triton_files():
        (site / name).unlink()
    shutil.rmtree(site / "triton-3.7.1.dist-info")
    (claim,) = read(site).claims
    assert claim.missing == 4
    assert not read(site).has_init


def test_a_fork_under_another_name(site: Path) -> None:
    builders.install(site, "triton-npu-fork", "1.0", builders.triton_ascend_files())
    (claim,) = read(site).claims
    assert (claim.name, claim.has_ascend_backend) == ("triton-npu-fork", True)


def test_an_ownerless_folder(site: Path) -> None:
    builders.install_triton_ascend(site)
    shutil.rmtree(site / "triton_ascend-3.2.2.dist-info")
    facts = read(site)
    assert facts.claims == ()
    assert facts.path is not None


def test_no_triton(site: Path) -> None:
    assert read(site) == TritonFacts()
