"""Link 2: are torch and torch-npu here, whole, and made for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flexdoctor.chain import Check
from flexdoctor.checks._words import at, metadata, unreadable
from flexdoctor.facts import Distribution, Facts, Place
from flexdoctor.findings import CAPABILITIES, Evidence, Fault, Finding, found, passed, unknown
from flexdoctor.text import Text

LINK = "packages"

UNREADABLE = Fault(
    "FD110", Text("the metadata of {package} cannot be read", "{package} 的元数据不可读"), affects=CAPABILITIES
)
NO_TORCH = Fault("FD111", Text("torch is not installed here", "此环境未安装 torch"), affects=CAPABILITIES)
NO_TORCH_NPU = Fault("FD112", Text("torch-npu is not installed here", "此环境未安装 torch-npu"), affects=CAPABILITIES)
MISMATCH = Fault(
    "FD113",
    Text(
        "torch-npu {npu} is made for torch {wanted}, but torch {torch} is installed",
        "torch-npu {npu} 要求 torch {wanted}，实际安装的是 torch {torch}",
    ),
    affects=CAPABILITIES,
)
CUDA_BUILD = Fault(
    "FD114",
    Text(
        "torch {torch} is a CUDA {cuda} build beside torch-npu",
        "torch {torch} 是 CUDA {cuda} 构建，却与 torch-npu 同装",
    ),
    severity="warning",
    blocks=False,
)
HALF_INSTALLED = Fault(
    "FD115",
    Text(
        "{package} is only half there: {count} of its files are missing",
        "{package} 安装不完整：缺少 {count} 个文件",
    ),
    affects=CAPABILITIES,
)
NO_METADATA = Fault(
    "FD116",
    Text(
        "there is a folder {module}/ that no installed package owns",
        "存在不属于任何已安装包的目录 {module}/",
    ),
    severity="warning",
    blocks=False,
)
SHADOWED = Fault(
    "FD117",
    Text(
        "{module} is taken from the {via} instead of from the installed package",
        "{module} 会从{via_zh}导入，而不是已安装的包",
    ),
    affects=CAPABILITIES,
)
DUPLICATE = Fault(
    "FD118",
    Text("{package} has {count} sets of metadata: {versions}", "{package} 有 {count} 份元数据：{versions}"),
    severity="warning",
    blocks=False,
)
COMPANION = Fault(
    "FD119",
    Text(
        "{package} is made for torch {wanted}, but torch {torch} is installed",
        "{package} 要求 torch {wanted}，实际安装的是 torch {torch}",
    ),
    severity="warning",
    blocks=False,
)

_COMPANIONS = ("torchvision", "torchaudio")
_VIA_ZH = {"working directory": "当前工作目录", "PYTHONPATH": " PYTHONPATH "}


def examine(facts: Facts) -> Iterator[Finding]:
    """Judge presence, completeness, origin and pairing of the packages of the chain."""
    findings = [
        *_absent(facts),
        *_half_installed(facts),
        *_ownerless(facts),
        *_shadowed(facts),
        *_duplicates(facts),
        *_pair(facts),
        *_companions(facts),
        *_unreadable(facts),
    ]
    yield from findings
    if not any(item.status in ("fail", "unknown") and item.blocks for item in findings):
        yield passed(LINK, Text(*[" · ".join(_versions(facts))] * 2))


def _versions(facts: Facts) -> Iterator[str]:
    if facts.torch:
        yield f"torch {facts.torch.version}"
    if facts.torch_npu:
        yield f"torch-npu {_version(facts, 'torch-npu') or facts.torch_npu.version}"


def _version(facts: Facts, name: str) -> str:
    dist = facts.packages.find(name)
    return dist.version if dist else ""


def _sites(facts: Facts) -> tuple[Evidence, ...]:
    return tuple(Evidence("file", "nothing of that name here", path=path) for path in facts.target.site_packages)


def _absent(facts: Facts) -> Iterator[Finding]:
    packages = facts.packages
    python = facts.interpreter.executable or "python"
    if facts.torch is None and packages.find("torch") is None:
        yield found(
            LINK,
            NO_TORCH,
            evidence=_sites(facts),
            remedy=Text(
                "examine the environment that holds torch: flexdoctor check --python PATH",
                "请检查装有 torch 的环境：flexdoctor check --python PATH",
            )
            if facts.torch_npu is None
            else Text(
                "{python} -m pip install torch, at the version that torch-npu asks for",
                "请安装 torch-npu 要求的 torch 版本：{python} -m pip install torch",
            ).format(python=python),
        )
    if facts.torch_npu is None and packages.find("torch-npu") is None:
        base = facts.torch.version.partition("+")[0] if facts.torch else ""
        yield found(
            LINK,
            NO_TORCH_NPU,
            evidence=_sites(facts),
            predicted_errors=["RuntimeError: PyTorch is not linked with support for npu devices"]
            if facts.torch
            else [],
            remedy=Text(
                "without torch-npu there is no npu device; install the one made for torch {base}",
                "没有 torch-npu 就没有 npu 设备；请安装与 torch {base} 配套的版本",
            ).format(base=base)
            if base
            else Text("", ""),
        )


def _half_installed(facts: Facts) -> Iterator[Finding]:
    modules = {"torch": facts.torch, "torch-npu": facts.torch_npu}
    for dist in facts.packages.distributions:
        if dist.name not in modules:
            continue
        gone = modules[dist.name] is None
        if not gone and not dist.missing_count:
            continue
        evidence = [metadata(dist, f"RECORD lists {name}, which is not there") for name in dist.missing_files]
        yield found(
            LINK,
            HALF_INSTALLED,
            package=f"{dist.name} {dist.version}",
            count=dist.missing_count or "all",
            evidence=evidence or [metadata(dist, "metadata without any file of the package")],
            remedy=Text(
                "{python} -m pip install --force-reinstall --no-deps {name}=={number}",
                "{python} -m pip install --force-reinstall --no-deps {name}=={number}",
            ).format(python=facts.interpreter.executable or "python", name=dist.name, number=dist.version),
        )


def _ownerless(facts: Facts) -> Iterator[Finding]:
    distribution_of = {"torch": "torch", "torch_npu": "torch-npu"}
    for folder in facts.packages.folders:
        name = distribution_of.get(folder.name)
        if name is None or folder.owners:
            continue
        if facts.packages.find(name) is None:
            yield found(
                LINK,
                NO_METADATA,
                module=folder.name,
                evidence=at(Place(folder.path, None, "no dist-info lists this folder")),
                detail=Text(
                    "pip does not know it, so it can neither upgrade nor remove it; it may be a source checkout "
                    "or what a broken uninstall left.",
                    "pip 不知道它的存在，无法升级或卸载；可能是源码目录，或卸载中断后的残留。",
                ),
            )


def _shadowed(facts: Facts) -> Iterator[Finding]:
    installed = {folder.name for folder in facts.packages.folders}
    for shadow in facts.packages.shadows:
        if shadow.module in installed:
            yield found(
                LINK,
                SHADOWED,
                module=shadow.module,
                via=shadow.via,
                via_zh=_VIA_ZH[shadow.via],
                evidence=[Evidence("file", f"found first, via the {shadow.via}", path=shadow.path)],
                predicted_errors=[f"ModuleNotFoundError: No module named '{shadow.module}._C'"],
                remedy=Text("run from another directory", "请换一个目录运行")
                if shadow.via == "working directory"
                else Text("take that folder out of PYTHONPATH", "请将该目录移出 PYTHONPATH"),
            )


def _duplicates(facts: Facts) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[Distribution]] = defaultdict(list)
    for dist in facts.packages.distributions:
        if dist.name in ("torch", "torch-npu", "triton", "triton-ascend"):
            groups[dist.name, dist.metadata_path.rpartition("/")[0]].append(dist)
    for (name, _), dists in groups.items():
        if len(dists) > 1:
            yield found(
                LINK,
                DUPLICATE,
                package=name,
                count=len(dists),
                versions=", ".join(dist.version for dist in dists),
                evidence=[metadata(dist, f"says version {dist.version}") for dist in dists],
                detail=Text(
                    "an uninstall was interrupted; which version pip believes in is a matter of chance.",
                    "卸载曾被中断；pip 认定哪个版本全凭偶然。",
                ),
                remedy=Text(
                    "uninstall {name} until pip no longer finds it, then install it once",
                    "反复卸载 {name} 直至 pip 找不到它，再安装一次",
                ).format(name=name),
            )


def _torch_requirement(dist: Distribution) -> Requirement | None:
    for line in dist.requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "torch" and requirement.marker is None:
            return requirement
    return None


def _fits(specifier: SpecifierSet, version: str) -> bool | None:
    """Tell whether a torch version satisfies a pin; None when the version cannot be read.

    A pin that names a local build (`==2.7.1+cpu`) is compared without it: pip is right to refuse such a pair, but at
    run time the same release of another build works.
    """
    try:
        public = Version(version).public
    except InvalidVersion:
        return None
    loosened = SpecifierSet(",".join(str(item).partition("+")[0] for item in specifier))
    return loosened.contains(public, prereleases=True)


def _pair(facts: Facts) -> Iterator[Finding]:
    dist = facts.packages.find("torch-npu")
    if facts.torch is None or dist is None or not facts.torch.version:
        return
    torch = facts.torch.version
    requirement = _torch_requirement(dist)
    fits = _fits(requirement.specifier, torch) if requirement else None
    if requirement and fits is False:
        wanted = str(requirement.specifier)
        yield found(
            LINK,
            MISMATCH,
            npu=dist.version,
            wanted=wanted,
            torch=torch,
            evidence=[metadata(dist, f"Requires-Dist: {requirement}"), *_version_evidence(facts)],
            detail=Text(
                "torch-npu links against one build of libtorch; with another one it fails at import, or later "
                "with undefined symbols.",
                "torch-npu 与特定版本的 libtorch 链接；版本不符会在导入时失败，或随后报未定义符号。",
            ),
            predicted_errors=["ImportError: ... libtorch_npu.so: undefined symbol: ..."],
            remedy=Text(
                "install the torch that it asks for ({wanted}), or the torch-npu made for torch {base}",
                "安装它要求的 torch（{wanted}），或改用与 torch {base} 配套的 torch-npu",
            ).format(wanted=wanted, base=torch.partition("+")[0]),
        )
    if facts.torch.cuda:
        yield found(
            LINK,
            CUDA_BUILD,
            torch=torch,
            cuda=facts.torch.cuda,
            evidence=_version_evidence(facts),
            detail=Text(
                "on a host with an NVIDIA driver torch-npu refuses to load beside it; without one it only costs disk.",
                "若主机装有 NVIDIA 驱动，torch-npu 会拒绝与其同时加载；没有则只是多占磁盘。",
            ),
            predicted_errors=[
                "RuntimeError: Two accelerators cannot be used at the same time in PyTorch: npu and cuda."
            ],
            remedy=Text(
                "use the CPU build of torch {base} where one exists", "若有，请改用 torch {base} 的 CPU 构建"
            ).format(base=torch.partition("+")[0]),
        )


def _version_evidence(facts: Facts) -> list[Evidence]:
    dist = facts.packages.find("torch")
    text = f"torch/version.py says {facts.torch.version if facts.torch else 'nothing'}"
    return [metadata(dist, text)] if dist else []


def _companions(facts: Facts) -> Iterator[Finding]:
    if facts.torch is None:
        return
    for name in _COMPANIONS:
        dist = facts.packages.find(name)
        requirement = _torch_requirement(dist) if dist else None
        if dist and requirement and _fits(requirement.specifier, facts.torch.version) is False:
            yield found(
                LINK,
                COMPANION,
                package=f"{name} {dist.version}",
                wanted=str(requirement.specifier),
                torch=facts.torch.version,
                evidence=[metadata(dist, f"Requires-Dist: {requirement}")],
                predicted_errors=["RuntimeError: operator torchvision::nms does not exist"]
                if name == "torchvision"
                else [],
                remedy=Text(
                    "install the {name} made for torch {base}, or remove it",
                    "请安装与 torch {base} 配套的 {name}，或将其卸载",
                ).format(name=name, base=facts.torch.version.partition("+")[0]),
            )


def _unreadable(facts: Facts) -> Iterator[Finding]:
    chain = ("/torch-", "/torch_npu-")
    notes = [item for item in facts.packages.unread if any(part in item.path for part in chain)]
    if notes:
        yield unknown(
            LINK,
            UNREADABLE,
            Text(
                "could not tell whether torch and torch-npu fit: their metadata cannot be read",
                "无法判断 torch 与 torch-npu 是否配套：元数据不可读",
            ),
            evidence=unreadable(notes),
        )


CHECK = Check(
    link=LINK,
    title=Text("packages", "软件包"),
    question=Text(
        "Are torch and torch-npu installed, complete, found first, and made for each other?",
        "torch 与 torch-npu 是否已安装、完整、优先被导入且相互配套？",
    ),
    faults=(
        UNREADABLE,
        NO_TORCH,
        NO_TORCH_NPU,
        MISMATCH,
        CUDA_BUILD,
        HALF_INSTALLED,
        NO_METADATA,
        SHADOWED,
        DUPLICATE,
        COMPANION,
    ),
    examine=examine,
)
