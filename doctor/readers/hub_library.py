"""The rules of the installed `kernels` package, read from its sources."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement

from flexdoctor.facts import Place
from flexdoctor.hub_facts import KernelsLibrary
from flexdoctor.readers.sources import line_of, line_text
from flexdoctor.readers.trees import Tree

_REPO_TYPE = re.compile(r"repo_type\s*=\s*['\"]kernel['\"]")
_VERSION_REQUIRED = re.compile(r"A kernel version or revision must be specified")
_PUBLISHER = re.compile(r"trustedKernelPublisher|trust_remote_code")
_CACHE = re.compile(r"os\.environ\.get\(\s*['\"](\w*KERNELS_CACHE)['\"]")
_OFFLINE = "is not available in the local cache"


def read_kernels(tree: Tree, version: str, requires: tuple[str, ...]) -> KernelsLibrary:
    """Return the rules by which the `kernels` below `tree` finds and loads a kernel."""
    texts = {name: text for name in tree.sources("kernels") if (text := tree.read(name)) is not None}
    everything = "\n".join(texts.values())
    kernel_type, required = _find(tree, texts, _REPO_TYPE), _find(tree, texts, _VERSION_REQUIRED)
    return KernelsLibrary(
        version=version,
        repo_type="kernel" if kernel_type else "model" if texts else None,
        repo_type_at=kernel_type,
        version_required=_raises(texts) if texts else None,
        version_required_at=required,
        version_required_error=_message(everything) if required else "",
        knows_local_kernels="LOCAL_KERNELS" in everything,
        knows_stable_abi="torch-stable-abi" in everything,
        checks_publisher=bool(_PUBLISHER.search(everything)),
        cache_variables=tuple(dict.fromkeys(_CACHE.findall(everything))),
        offline_version_error="ValueError: Version {version} of '{repo}' is not available in the local cache"
        if _OFFLINE in everything
        else "",
        huggingface_hub=_bound(requires),
        unread=tuple(item for item in tree.unread if "/kernels/" in item.path),
    )


def _find(tree: Tree, texts: dict[str, str], pattern: re.Pattern[str]) -> Place | None:
    for name, text in texts.items():
        if match := pattern.search(text):
            line = line_of(text, match.start())
            return tree.place(name, line, line_text(text, line))
    return None


def _raises(texts: dict[str, str]) -> bool:
    """Whether loading without a version is an error: the message is raised, not warned (and not commented out)."""
    return any(
        re.search(r"^\s*raise ValueError\(\s*['\"]" + _VERSION_REQUIRED.pattern, text, re.MULTILINE)
        for text in texts.values()
    )


def _message(text: str) -> str:
    match = re.search(r"raise ValueError\(\s*((?:['\"][^\n]*['\"]\s*)+)\)", text[_start(text) :])
    return "ValueError: " + "".join(re.findall(r"['\"]([^\n]*?)['\"]\s*(?:\n|\Z)", match[1] + "\n")) if match else ""


def _start(text: str) -> int:
    match = _VERSION_REQUIRED.search(text)
    return max(text.rfind("raise ValueError", 0, match.start()) if match else 0, 0)


def _bound(requires: tuple[str, ...]) -> str | None:
    for item in requires:
        try:
            requirement = Requirement(item)
        except InvalidRequirement:
            continue
        if requirement.name.lower().replace("_", "-") == "huggingface-hub" and not requirement.marker:
            return str(requirement.specifier) or None
    return None
