"""Link 2: are torch and torch-npu here, whole, and made for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flexdoctor.chain import Check
from flexdoctor.checks._words import at, metadata, to_learn_more, unreadable
from flexdoctor.facts import Distribution, Facts, Place
from flexdoctor.findings import CAPABILITIES, COMPILED, Evidence, Fault, Finding, found, passed, unknown
from flexdoctor.knowledge import stacks
from flexdoctor.text import Text

LINK = "packages"

UNREADABLE = Fault(
    "FD110",
    Text("the metadata of {package} cannot be read", "{package} 的元数据不可读"),
    affects=CAPABILITIES,
    blocks=False,
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

UNKNOWN_RELEASE = Fault(
    "FD161",
    Text("nothing is known of {package}", "知识库中没有 {package}"),
    affects=CAPABILITIES,
)
NO_WHEEL = Fault(
    "FD162",
    Text(
        "there is no wheel of {package} for Python {python} on {architecture}",
        "{package} 没有适用于 Python {python} / {architecture} 的 wheel",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
LOCAL_PIN = Fault(
    "FD163",
    Text(
        "torch-npu {npu} asks for torch {wanted} on {architecture}, which the default index does not have",
        "torch-npu {npu} 在 {architecture} 上要求 torch {wanted}，默认软件源没有该版本",
    ),
    affects=CAPABILITIES,
    blocks=False,
)

_COMPANIONS = ("torchvision", "torchaudio")
_VIA_ZH = {"working directory": "当前工作目录", "PYTHONPATH": " PYTHONPATH "}


def examine(facts: Facts) -> Iterator[Finding]:
    """Judge presence, completeness, origin and pairing of the packages of the chain."""
    findings = [
        *_unknown_releases(facts),
        *_absent(facts),
        *_no_wheel(facts),
        *_local_pin(facts),
        *([] if facts.target.is_planned else _half_installed(facts)),
        *_ownerless(facts),
        *_shadowed(facts),
        *_duplicates(facts),
        *_pair(facts),
        *_companions(facts),
        *_unreadable(facts),
    ]
    yield from findings
    if not any(item.status in ("fail", "unknown") and item.blocks for item in findings):
        known = [
            Evidence("knowledge", f"{item.name} {item.version}: facts from the {item.evidence}", source=item.source)
            for item in facts.packages.known_releases
        ]
        yield passed(LINK, Text(*[" · ".join(_versions(facts))] * 2), evidence=known)


def _versions(facts: Facts) -> Iterator[str]:
    if facts.torch:
        yield f"torch {facts.torch.version}"
    if facts.torch_npu:
        yield f"torch-npu {_version(facts, 'torch-npu') or facts.torch_npu.version}"


def _version(facts: Facts, name: str) -> str:
    dist = facts.packages.find(name)
    return dist.version if dist else ""


def _unknown_releases(facts: Facts) -> Iterator[Finding]:
    for item in facts.packages.unknown_releases:
        if item.name not in ("torch", "torch-npu"):
            continue  # the link of triton speaks of its own
        name = f"{item.name} {item.version or ''}".strip()
        reason = (
            Text("{package} is not pinned to a version", "{package} 未固定版本")
            if item.version is None
            else Text(
                "nothing is known of {package}; the nearest known release is {nearest}",
                "知识库中没有 {package}；最接近的已知版本是 {nearest}",
            )
        )
        yield unknown(
            LINK,
            UNKNOWN_RELEASE,
            reason.format(package=name, nearest=item.nearest or "-"),
            evidence=[Evidence("metadata", f"{name} is planned", path=facts.target.description)],
            remedy=to_learn_more(item),
        )


def _no_wheel(facts: Facts) -> Iterator[Finding]:
    if not facts.target.is_planned:
        return
    python, architecture = facts.interpreter.version, facts.interpreter.architecture
    for dist in facts.packages.distributions:
        # Upstream triton is nothing that an NPU needs; the link of triton says what it does here.
        if not dist.tags or dist.name == "triton" or fits_platform(dist.tags, python, architecture):
            continue
        pythons = sorted({tag.partition("-")[0] for tag in dist.tags}, key=lambda name: (len(name), name))
        yield found(
            LINK,
            NO_WHEEL,
            package=f"{dist.name} {dist.version}",
            python=python,
            architecture=architecture,
            affects=CAPABILITIES if dist.name in ("torch", "torch-npu") else COMPILED,
            evidence=[metadata(dist, f"wheels exist for {', '.join(pythons)}")],
            predicted_errors=[f"ERROR: No matching distribution found for {dist.name}=={dist.version}"],
            remedy=Text(
                "take one of those Pythons, or a release that has a wheel for this one (flexdoctor list stacks)",
                "请使用上述 Python 版本，或换用有对应 wheel 的版本（flexdoctor list stacks）",
            )
            if facts.target.kind != "wheels"
            else Text(
                "put its wheel for this Python and architecture into the folder",
                "请将适用于该 Python 版本和架构的 wheel 放入此目录",
            ),
        )


def fits_platform(tags: tuple[str, ...], python: str | None, architecture: str | None) -> bool:
    """Tell whether one of the wheel tags can be installed on Linux with this CPython."""
    digits = "".join((python or "").split(".")[:2])
    return any(
        tag.interpreter in (f"cp{digits}", f"py{digits}", "py3", "py2")
        and (tag.platform == "any" or tag.platform.endswith(architecture or ""))
        for tag in (item for text in tags for item in parse_tag(text))
    )


def _local_pin(facts: Facts) -> Iterator[Finding]:
    """Name the pin on a `+cpu` build that the default index cannot satisfy."""
    dist, torch = facts.packages.find("torch-npu"), facts.packages.find("torch")
    requirement = _torch_requirement(dist) if dist else None
    if not facts.target.is_planned or dist is None or requirement is None or "+" not in str(requirement.specifier):
        return
    is_implied = "torch" in facts.packages.implied
    if torch and not is_implied and requirement.specifier.contains(torch.version, prereleases=True):
        return  # whoever names that build knows where it comes from
    # A list that also names torch's own dependencies was resolved already, so the set exists somewhere.
    is_resolved = facts.target.kind == "requirements" and all(map(facts.packages.find, ("sympy", "filelock")))
    index = stacks.index("pytorch-cpu")
    yield found(
        LINK,
        LOCAL_PIN,
        npu=dist.version,
        wanted=str(requirement.specifier),
        architecture=facts.interpreter.architecture,
        affects=() if is_resolved else CAPABILITIES,
        evidence=[
            metadata(dist, f"Requires-Dist: {requirement}"),
            Evidence("knowledge", f"the index of such builds is {index.url}", source=f"{index.source}, {index.date}"),
        ],
        predicted_errors=[f"ERROR: Could not find a version that satisfies the requirement {requirement}"],
        detail=Text(
            "Wheels of the same version for aarch64 ask for plain torch; the pin is on x86_64 only.",
            "同版本的 aarch64 wheel 只要求普通 torch，仅 x86_64 有此限制。",
        ),
        remedy=Text(
            "add --extra-index-url {index}, or install torch first and torch-npu with --no-deps",
            "请加上 --extra-index-url {index}，或先安装 torch，再以 --no-deps 安装 torch-npu",
        ).format(index=index.url),
    )


def _sites(facts: Facts) -> tuple[Evidence, ...]:
    return tuple(Evidence("file", "nothing of that name here", path=path) for path in facts.target.site_packages)


def _absent(facts: Facts) -> Iterator[Finding]:
    packages = facts.packages
    python = facts.interpreter.executable or "python"
    where = [] if facts.target.is_planned else _sites(facts)
    if facts.torch is None and packages.find("torch") is None:
        yield found(
            LINK,
            NO_TORCH,
            evidence=where,
            remedy=Text(
                "examine the environment that holds torch (flexdoctor check --python PATH), or fill this one "
                "(flexdoctor list stacks, then flexdoctor fix --stack NAME)",
                "请检查装有 torch 的环境（flexdoctor check --python PATH），或在此环境中安装一套组合"
                "（flexdoctor list stacks，然后 flexdoctor fix --stack NAME）",
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
            evidence=where,
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
        # Metadata that another set stands before is no longer that of the files; that there are two is told elsewhere.
        if dist.name not in modules or dist is not facts.packages.find(dist.name):
            continue
        gone = modules[dist.name] is None
        if not gone and not dist.missing_count:
            continue
        if gone and dist.is_editable:
            yield unknown(
                LINK,
                HALF_INSTALLED,
                Text(
                    "{name} is an editable install whose sources were not found",
                    "{name} 是可编辑安装，未能找到其源码",
                ).format(name=dist.name),
                evidence=[metadata(dist, "direct_url.json says editable")],
                remedy=Text(
                    "examine its source tree: flexdoctor check --site-packages DIR",
                    "请检查其源码目录：flexdoctor check --site-packages DIR",
                ),
            )
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
                    "卸载曾被中断；pip 认定的是哪个版本并不确定。",
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
                "use the CPU build of torch {base} where one exists", "若有 torch {base} 的 CPU 构建，请改用它"
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
    pair = (facts.packages.find("torch"), facts.packages.find("torch-npu"))
    folders = tuple(f"{dist.metadata_path}/" for dist in pair if dist)
    notes = [item for item in facts.packages.unread if item.path.startswith(folders)]
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
        UNKNOWN_RELEASE,
        NO_WHEEL,
        LOCAL_PIN,
    ),
    examine=examine,
    pages=Path(__file__).with_suffix(".toml"),
)
