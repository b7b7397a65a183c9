"""Link 10 on facts from small trees: selection, caches, versions, variants; healthy cases first."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import builders
import hub_consumers
import kernel_trees as trees
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.checks._hub_fit import Machine, call_error, misfit
from flexdoctor.facts import Facts, Place
from flexdoctor.findings import Finding
from flexdoctor.hub_facts import CallSite, KernelFunction, Parameter
from flexdoctor.readers.environment import HubOptions, ReadOptions, read_site_packages
from flexdoctor.readers.hub import KernelSpecError, cache_folder, parse_kernel, read_hub
from flexdoctor.readers.hub_library import read_kernels
from flexdoctor.readers.hub_surfaces import parse_variant
from flexdoctor.readers.packages import find_distributions
from flexdoctor.readers.trees import FolderTree
from flexdoctor.serialise import from_json, to_json

FA2 = "kernels-community/flash-attn2"


def facts_of(site: Path, kernel: str | None = None, **variables: str) -> Facts:
    """Read an environment together with variables, as if the command ran with them."""
    facts = read_site_packages(site)
    named = (parse_kernel(kernel),) if kernel else ()
    distributions, _ = find_distributions([site])
    variables = {"HF_HOME": str(site.parent / "hf"), **variables}
    hub = read_hub([site], distributions, named=named, variables=variables)
    return dataclasses.replace(facts, hub=hub)


def findings(facts: Facts) -> list[Finding]:
    return [item for item in diagnose(facts, CHAIN).findings if item.link == "hub_kernels"]


def said(facts: Facts) -> list[tuple[str, str | None, str]]:
    return [(item.status, item.code, item.severity) for item in findings(facts)]


def test_without_a_consumer_the_link_is_skipped(site: Path) -> None:
    builders.install_healthy(site)
    (found,) = findings(read_site_packages(site))
    assert (found.status, found.title.en) == ("skipped", "no diffusers or transformers here")


def test_an_ordinary_diffusers_environment_is_healthy(site: Path) -> None:
    builders.install_healthy(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    builders.install(site, "huggingface_hub", "1.33.0")
    report = diagnose(facts_of(site), CHAIN)
    assert report.verdict == "healthy"
    assert [item.status for item in report.findings if item.link == "hub_kernels"] == ["pass"]


def test_a_cached_kernel_that_fits(site: Path) -> None:
    hub_consumers.install_kernels(site)
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v3"])
    assert said(facts_of(site)) == [("pass", None, "none")]


def test_another_version_of_the_kernel_in_the_cache_is_nobodys_business(site: Path) -> None:
    hub_consumers.install_kernels(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    cache = site.parent / "hf" / "hub"
    trees.write_cached(cache, trees.flash_attn2(wrapped=True), commit="1" * 40, refs=["v1"])
    trees.write_cached(cache, trees.flash_attn2(wrapped=False), commit="3" * 40, refs=["v3"])
    assert said(facts_of(site)) == [("pass", None, "none")]


def test_a_cached_kernel_that_does_not_fit_is_a_warning_and_takes_no_capability(site: Path) -> None:
    hub_consumers.install_kernels(site)
    builders.install_healthy(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v1"])
    report = diagnose(facts_of(site), CHAIN)
    (found,) = [item for item in report.findings if item.code == "FD301"]
    assert (found.status, found.severity) == ("warn", "warning")
    assert report.verdict == "healthy"
    assert report.capabilities["compiled_forward"].available == "yes"


def test_a_cache_without_branches_is_told_by_the_metadata(site: Path) -> None:
    """A kernel that was loaded by version leaves no branch in the cache."""
    hub_consumers.install_kernels(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    cache = site.parent / "hf" / "hub"
    trees.write_cached(cache, trees.flash_attn2(wrapped=False), trees.KernelShape(version=3), commit="3" * 40)
    assert said(facts_of(site)) == [("pass", None, "none")]
    trees.write_cached(cache, trees.flash_attn2(wrapped=False), trees.KernelShape(version=1), commit="1" * 40)
    (found,) = findings(facts_of(site))
    assert found.code == "FD301"
    assert "@11111111 " in found.title.en


def test_the_cache_of_somebody_who_has_kernels_is_not_ours(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v1"])
    assert said(facts_of(site)) == [("pass", None, "none")]


@pytest.mark.parametrize("way", ["LOCAL_KERNELS", "--kernel"])
def test_a_kernel_that_the_user_chose_is_an_error(way: str, site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    folder = trees.write_kernel(site.parent / "kernel", trees.flash_attn2(wrapped=False))
    named = f"{FA2}={folder}"
    facts = facts_of(site, LOCAL_KERNELS=named) if way == "LOCAL_KERNELS" else facts_of(site, named)
    (found,) = findings(facts)
    assert (found.status, found.code) == ("fail", "FD301")
    assert found.predicted_errors == (
        "AttributeError: Kernel module '_flash_attn2_cuda_1abcdef' does not define attribute path "
        "'flash_attn_interface._wrapped_flash_attn_forward'.",
    )


def test_the_ways_out_come_in_order_and_only_those_that_help(site: Path) -> None:
    hub_consumers.install_kernels(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    cache = site.parent / "hf" / "hub"
    trees.write_cached(cache, trees.flash_attn2(wrapped=False), commit="2" * 40)
    good = trees.write_cached(cache, trees.flash_attn2(wrapped=True), commit="1" * 40)
    (remedy,) = [item.remedy for item in findings(facts_of(site)) if item.code == "FD301"]
    parts = remedy.en.split("; ")
    assert parts[0].startswith("(1) move to diffusers>=0.42.0")
    assert parts[1].startswith("(2) drop «_wrapped» from the names at attention_dispatch.py:")
    assert parts[2].startswith("(3) pin the commit 11111111")
    assert f"export LOCAL_KERNELS={FA2}={good} (it no longer moves)" in parts[2]
    assert parts[3].startswith("(4) select another backend")
    # Where the kernel lacks the plain names too, the patch would not help and is not offered.
    poor = trees.write_kernel(site.parent / "poor", trees.sage_attention())
    (remedy,) = [item.remedy for item in findings(facts_of(site, f"{FA2}={poor}")) if item.code == "FD301"]
    assert "drop" not in remedy.en
    assert "move to" not in remedy.en


def test_on_an_npu_the_other_backend_is_the_one_of_torch_npu(site: Path) -> None:
    builders.install_healthy(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    folder = trees.write_kernel(site.parent / "kernel", trees.flash_attn2(wrapped=False))
    found = [item for item in findings(facts_of(site, f"{FA2}={folder}")) if item.code == "FD301"]
    assert "_native_npu" in found[0].remedy.en


def test_a_variable_that_selects_what_is_never_loaded(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    assert said(facts_of(site, DIFFUSERS_ATTN_BACKEND="native")) == [("pass", None, "none")]
    (found,) = findings(facts_of(site, DIFFUSERS_ATTN_BACKEND="flash_hub"))
    assert (found.status, found.code) == ("fail", "FD307")
    assert found.predicted_errors == ("TypeError: 'NoneType' object is not callable",)
    (found,) = findings(facts_of(site, DIFFUSERS_ATTN_BACKEND="bogus"))
    assert (found.status, found.code) == ("fail", "FD312")


@pytest.mark.parametrize(
    ("hub", "refs", "listed", "errors"),
    [
        ("1.33.0", ["v3"], ["build/torch-universal/__init__.py"], []),
        ("1.33.0", [], ["build/torch-universal/__init__.py"], ["ValueError: Version 3"]),
        ("1.33.0", ["v3"], ["build/torch-cpu/__init__.py"], ["FileNotFoundError: Cannot find a local snapshot"]),
        ("1.21.0", ["v3"], ["build/torch-cpu/__init__.py"], []),
        ("1.33.0", [], ["build/torch-cpu/x"], ["ValueError: Version 3", "FileNotFoundError: Cannot find"]),
    ],
)
def test_offline(hub: str, refs: list[str], listed: list[str], errors: list[str], site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False, requires=())
    hub_consumers.install_kernels(site)
    builders.install(site, "huggingface_hub", hub)
    shape = trees.KernelShape(version=3)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), shape, refs=refs, listed=listed)
    assert "FD309" not in [code for _, code, _ in said(facts_of(site))]
    found = [item for item in findings(facts_of(site, HF_HUB_OFFLINE="1")) if item.code == "FD309"]
    predicted = [error for item in found for error in item.predicted_errors]
    assert len(predicted) == len(errors)
    assert all(text.startswith(start) for text, start in zip(predicted, errors, strict=True))


def test_bounds_of_versions(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    hub_consumers.install_kernels(site, "0.11.0")
    builders.install(site, "huggingface_hub", "0.36.2")
    titles = {item.title.en for item in findings(facts_of(site)) if item.code == "FD306"}
    assert titles == {
        "diffusers 0.42.1 does not work with huggingface_hub 0.36.2",
        "kernels 0.11.0 does not work with huggingface_hub 0.36.2",
        "diffusers 0.42.1 (flash_hub) does not work with kernels 0.11.0",
    }


def test_a_kernel_that_cannot_be_had(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    assert said(facts_of(site, f"{FA2}@3")) == [("unknown", "FD310", "none")]
    assert said(facts_of(site, str(site.parent / "gone"))) == [("fail", "FD310", "error")]


@pytest.mark.parametrize("value", [f"{FA2}=/no/such/folder", "nonsense", f"{FA2}=", "=:=", "\udcff=\udcff"])
def test_local_kernels_that_lead_nowhere(value: str, site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    assert {code for _, code, _ in said(facts_of(site, LOCAL_KERNELS=value))} == {"FD310"}


def test_a_kernel_without_any_consumer_is_still_looked_at(site: Path) -> None:
    folder = trees.write_kernel(site.parent / "kernel", trees.flash_attn2(wrapped=False))
    assert said(facts_of(site, str(folder))) == [("pass", None, "none")]


def test_a_folder_that_names_no_repository_may_stand_in_for_any(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    folder = site.parent / "some-package"
    folder.mkdir()
    for name, text in trees.flash_attn2(wrapped=False).items():
        (folder / name).write_text(text)
    (found,) = findings(facts_of(site, str(folder)))
    assert (found.status, found.code) == ("warn", "FD301")
    assert f"{FA2}=FOLDER" in found.detail.en


def test_local_kernels_without_a_consumer(site: Path) -> None:
    hub_consumers.install_kernels(site)
    folder = trees.write_kernel(site.parent / "kernel", trees.flash_attn2(wrapped=False))
    (found,) = findings(facts_of(site, LOCAL_KERNELS=f"{FA2}={folder}"))
    assert (found.status, found.title.en) == ("pass", f"{FA2} was read; no consumer is here")


def test_facts_survive_a_snapshot(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    hub_consumers.install_kernels(site)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=True), refs=["v1"])
    facts = facts_of(site)
    assert from_json(Facts, to_json(facts)) == facts
    document: dict[str, Any] = to_json(facts)
    del document["hub"]
    assert from_json(Facts, document).hub is None


def test_no_secret_is_kept(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    facts = facts_of(site, HF_TOKEN="hf_0123abc", HUGGING_FACE_HUB_TOKEN="hf_0123abc", HF_ENDPOINT="http://u:p@host")
    assert "hf_0123abc" not in str(to_json(facts))
    assert "u:p" not in str(to_json(facts))


@pytest.mark.parametrize(
    ("variables", "older", "expected"),
    [
        ({}, False, "~/.cache/huggingface/hub"),
        ({"HF_HOME": "/a"}, False, "/a/hub"),
        ({"HF_HOME": "/a", "HF_HUB_CACHE": "/b"}, False, "/b"),
        ({"HF_HUB_CACHE": "/b", "KERNELS_CACHE": "/c"}, False, "/c"),
        ({"HF_KERNELS_CACHE": "/d", "KERNELS_CACHE": "/c"}, False, "/c"),
        ({"HF_KERNELS_CACHE": "/d", "KERNELS_CACHE": "/c"}, True, "/d"),
        ({"XDG_CACHE_HOME": "/x"}, False, "/x/huggingface/hub"),
    ],
)
def test_where_the_cache_is(variables: dict[str, str], older: bool, expected: str, site: Path) -> None:
    hub_consumers.install_kernels(site)
    if older:
        text = "import os\ncache = os.environ.get('HF_KERNELS_CACHE', None)\nos.environ.get('KERNELS_CACHE', None)\n"
        (site / "kernels" / "__init__.py").write_text(text)
    kernels = read_kernels(FolderTree(site), "0.17.2", ())
    assert cache_folder(variables, kernels) == Path(expected).expanduser()


@pytest.mark.parametrize(
    ("text", "repo", "wanted", "folder"),
    [
        ("org/name", "org/name", "", None),
        ("org/name@3", "org/name", "3", None),
        ("org/name@v3", "org/name", "v3", None),
        ("/a/b", "", "", "/a/b"),
        ("./b", "", "", "b"),
        ("org/name=/a/b", "org/name", "", "/a/b"),
    ],
)
def test_how_a_kernel_is_named(text: str, repo: str, wanted: str, folder: str | None) -> None:
    named = parse_kernel(text)
    assert (named.repo, named.wanted, str(named.folder) if named.folder else None) == (repo, wanted, folder)


@pytest.mark.parametrize("text", ["name", "a/b/c", "org/name@", "", "org/na me"])
def test_what_is_not_a_kernel(text: str) -> None:
    with pytest.raises(KernelSpecError):
        parse_kernel(text)


FUNCTIONS = {
    "def f(a, b): pass": KernelFunction("f", Place("x"), parameters=(Parameter("a"), Parameter("b"))),
    "def f(a, b=1): pass": KernelFunction("f", Place("x"), parameters=(Parameter("a"), Parameter("b", default="1"))),
    "def f(a, *, b): pass": KernelFunction("f", Place("x"), parameters=(Parameter("a"), Parameter("b", "keyword"))),
    "def f(a, **kw): pass": KernelFunction("f", Place("x"), parameters=(Parameter("a"), Parameter("kw", "kwargs"))),
    "def f(a, b, c, d): pass": KernelFunction("f", Place("x"), parameters=tuple(Parameter(name) for name in "abcd")),
    "def f(): pass": KernelFunction("f", Place("x")),
    "def f(a): pass": KernelFunction("f", Place("x"), parameters=(Parameter("a"),)),
    "def f(a, *, b=1): pass": KernelFunction(
        "f", Place("x"), parameters=(Parameter("a"), Parameter("b", "keyword", "1"))
    ),
}


@pytest.mark.parametrize("source", FUNCTIONS)
@pytest.mark.parametrize("positional", range(4))
@pytest.mark.parametrize("keywords", [(), ("b",), ("x",), ("a",), ("b", "x"), ("d",)])
def test_call_errors_are_those_of_python(source: str, positional: int, keywords: tuple[str, ...]) -> None:
    space: dict[str, Any] = {}
    exec(source, space)
    real = None
    try:
        space["f"](*range(positional), **dict.fromkeys(keywords))
    except TypeError as error:
        real = f"TypeError: {error}"
    call = CallSite("caller", Place("y"), positional, keywords)
    assert call_error(FUNCTIONS[source], call) == real


X86 = Machine("2.13.0", True, "cuda", "13.0", "x86_64", "linux", True)


@pytest.mark.parametrize(
    ("variant", "machine", "expected"),
    [
        ("torch213-cxx11-cu130-x86_64-linux", X86, True),
        ("torch213-cxx11-cu128-x86_64-linux", X86, False),
        ("torch213-cxx11-cu131-x86_64-linux", X86, False),
        ("torch213-cxx11-cu130-aarch64-linux", X86, False),
        ("torch212-cxx11-cu130-x86_64-linux", X86, False),
        ("torch213-cxx98-cu130-x86_64-linux", X86, False),
        ("torch-stable-abi210-cu130-x86_64-linux", X86, True),
        ("torch-stable-abi214-cu130-x86_64-linux", X86, False),
        ("torch-stable-abi210-cu130-x86_64-linux", dataclasses.replace(X86, knows_stable_abi=False), False),
        ("torch-cuda", X86, True),
        ("torch-npu", X86, False),
        ("torch-universal", X86, True),
        ("torch-npu", dataclasses.replace(X86, backend="cann", backend_version="8.5.0"), True),
        ("torch213-cxx11-cann85-x86_64-linux", dataclasses.replace(X86, backend="cann", backend_version="8.5.0"), True),
        ("torch213-cxx11-cann81-x86_64-linux", dataclasses.replace(X86, backend="cann", backend_version="8.2"), False),
        ("torch213-cxx11-cu130-x86_64-linux", dataclasses.replace(X86, architecture=None), None),
        ("torch213-cxx11-cann85-x86_64-linux", dataclasses.replace(X86, backend="cann", backend_version=None), None),
        ("nonsense", X86, False),
    ],
)  # fmt: skip
def test_which_build_fits(variant: str, machine: Machine, expected: bool | None) -> None:
    reason = misfit(parse_variant(variant), machine)
    assert (None if reason is None else reason == "") is expected


def test_every_sentence_is_in_both_languages(site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    folder = trees.write_kernel(site.parent / "kernel", trees.flash_attn2(wrapped=False))
    for item in findings(facts_of(site, f"{FA2}={folder}", DIFFUSERS_ATTN_BACKEND="flash_hub")):
        for text in (item.title, item.detail, item.remedy):
            assert bool(text.en) == bool(text.zh)
            assert "{" not in text.en + text.zh


@pytest.mark.parametrize("text", ["def f(:\n", "x = " + "(" * 400 + ")" * 400, "\0"])
def test_a_consumer_that_cannot_be_read_is_unknown_not_healthy(text: str, site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    (site / "diffusers" / "models" / "attention_dispatch.py").write_text(text)
    (found,) = findings(facts_of(site))
    assert (found.status, found.title.en) == ("unknown", "could not tell: attention_dispatch.py cannot be read")


def test_an_older_diffusers_asks_for_nothing(site: Path) -> None:
    builders.install(site, "diffusers", "0.30.0", {"diffusers/__init__.py": ""})
    assert said(facts_of(site)) == [("pass", None, "none")]


def test_environment_variables_do_not_reach_a_bare_folder(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFUSERS_ATTN_BACKEND", "flash_hub")
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    (found,) = findings(read_site_packages(site, options=ReadOptions(hub=HubOptions())))
    assert found.status == "pass"
