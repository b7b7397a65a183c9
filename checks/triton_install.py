"""Link 6: is the `triton` folder triton-ascend's, whole, and importable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import at, to_learn_more, triton_ascend_pin, unreadable
from flexdoctor.facts import Facts, TritonClaim, TritonFacts, UnknownRelease
from flexdoctor.findings import COMPILED, Evidence, Fault, Finding, found, passed, unknown
from flexdoctor.text import Text

LINK = "triton_install"

ABSENT = Fault("FD211", Text("triton-ascend is not installed", "未安装 triton-ascend"), affects=COMPILED)
UPSTREAM = Fault(
    "FD212",
    Text(
        "the triton here is {owner}, which has no Ascend backend",
        "此处的 triton 是 {owner}，没有昇腾后端",
    ),
    affects=COMPILED,
)
OVERWRITTEN = Fault(
    "FD213",
    Text(
        "triton was written over triton-ascend: {count} of {shared} shared files are not triton-ascend's",
        "triton-ascend 的文件被上游 triton 覆盖：{shared} 个共有文件中有 {count} 个已不是它的",
    ),
    affects=COMPILED,
)
MISSING_IMPORT = Fault(
    "FD214",
    Text(
        "triton-ascend imports {modules}, which no metadata asks for and which is not installed",
        "triton-ascend 会导入 {modules}，但其元数据未声明，环境中也未安装",
    ),
    affects=COMPILED,
    blocks=False,
)
LEFTOVER = Fault(
    "FD215",
    Text("there is a triton folder that no installed package owns", "存在不属于任何已安装包的 triton 目录"),
    affects=COMPILED,
)
INCOMPLETE = Fault(
    "FD216",
    Text(
        "{owner} is only half there: {count} of its {files} files are gone",
        "{owner} 安装不完整：{files} 个文件中缺少 {count} 个",
    ),
    affects=COMPILED,
)
STALE_BACKEND = Fault(
    "FD217",
    Text(
        "the {backend} backend that {owner} left makes `import triton` fail",
        "{owner} 遗留的 {backend} 后端使 `import triton` 失败",
    ),
    affects=COMPILED,
)
UNREADABLE = Fault("FD218", Text("the triton folder cannot be read", "triton 目录不可读"), affects=COMPILED)

UNKNOWN_RELEASE = Fault("FD251", Text("nothing is known of {package}", "知识库中没有 {package}"), affects=COMPILED)
ORDER_DECIDES = Fault(
    "FD252",
    Text(
        "{ascend} and {others} are both planned: the one that is installed last owns triton/",
        "计划同时安装 {ascend} 与 {others}：后装者拥有 triton/ 目录",
    ),
    affects=COMPILED,
    blocks=False,
)
WILL_DISPLACE = Fault(
    "FD253",
    Text(
        "an install of this plan brings upstream triton too: {wanted}",
        "按此计划安装还会带来上游 triton：{wanted}",
    ),
    severity="warning",
    blocks=False,
)

_NO_DRIVER = "RuntimeError: 0 active drivers ([]). There should only be one."
_NOT_INSTALLED = "triton-ascend is not installed. Please install it first."


def examine(facts: Facts) -> Iterator[Finding]:
    """Find the owner of the folder, then compare it with what that owner's RECORD says."""
    triton = facts.triton
    ascend = next((claim for claim in triton.claims if claim.has_ascend_backend), None)
    unknown_releases = [item for item in facts.packages.unknown_releases if item.name in ("triton-ascend", "triton")]
    if facts.target.is_planned:
        yield from _will_displace(facts)
    if unknown_releases and ascend is None:
        yield _unknown_release(facts, unknown_releases[0])
    elif triton.path is None:
        yield _absent(facts, ascend)
    elif triton.unread and not triton.backends:
        yield unknown(LINK, UNREADABLE, UNREADABLE.title, evidence=unreadable(triton.unread))
    elif not triton.claims:
        yield from _ownerless(triton)
    elif ascend is None:
        yield _upstream(facts)
    else:
        yield from _judge(facts, ascend)


def _absent(facts: Facts, ascend: TritonClaim | None) -> Finding:
    if ascend is not None:
        return _incomplete(ascend)
    return found(
        LINK,
        ABSENT,
        predicted_errors=[_NOT_INSTALLED, "ModuleNotFoundError: No module named 'triton'"],
        evidence=[Evidence("metadata", "no distribution lists a file under triton/")],
        remedy=Text("install", "请安装 ") + triton_ascend_pin(facts),
    )


def _unknown_release(facts: Facts, item: UnknownRelease) -> Finding:
    name = f"{item.name} {item.version or ''}".strip()
    return unknown(
        LINK,
        UNKNOWN_RELEASE,
        (
            Text("{package} is not pinned to a version", "{package} 未固定版本")
            if item.version is None
            else Text(
                "nothing is known of {package}; the nearest known release is {nearest}",
                "知识库中没有 {package}；最接近的已知版本是 {nearest}",
            )
        ).format(package=name, nearest=item.nearest or "-"),
        evidence=[Evidence("metadata", f"{name} is planned", path=facts.target.description)],
        remedy=to_learn_more(item),
    )


def _will_displace(facts: Facts) -> Iterator[Finding]:
    names = {item.name for item in facts.packages.distributions}
    if not facts.packages.triton_wanted_by or "triton" in names or {"sympy", "filelock"} <= names:
        return  # a list that names torch's own dependencies is complete as it stands
    yield found(
        LINK,
        WILL_DISPLACE,
        wanted="; ".join(facts.packages.triton_wanted_by),
        evidence=[Evidence("metadata", line) for line in facts.packages.triton_wanted_by],
        remedy=Text(
            "install triton-ascend last, with --force-reinstall --no-deps, after uninstalling triton",
            "先卸载 triton，最后以 --force-reinstall --no-deps 安装 triton-ascend",
        ),
    )


def _order_decides(facts: Facts, ascend: TritonClaim) -> Iterator[Finding]:
    """From 3.2.1 on triton-ascend asks for triton itself, so that an installer puts it last; before, chance decides."""
    others = [claim for claim in facts.triton.claims if claim is not ascend]
    dist = facts.packages.find(ascend.name)
    asks_for_triton = dist is not None and any(line.partition("=")[0].strip() == "triton" for line in dist.requires)
    if others and not asks_for_triton:
        yield unknown(
            LINK,
            ORDER_DECIDES,
            ORDER_DECIDES.title.format(
                ascend=f"{ascend.name} {ascend.version}",
                others=", ".join(f"{claim.name} {claim.version}" for claim in others),
            ),
            evidence=[Evidence("metadata", f"{ascend.name} {ascend.version} does not ask for triton")],
            remedy=Text("leave triton out of the plan", "请从计划中去掉 triton"),
        )


def _ownerless(triton: TritonFacts) -> Iterator[Finding]:
    evidence = [
        Evidence(
            "file",
            f"backends: {', '.join(triton.backends) or 'none'}; no RECORD lists it",
            path=triton.path,
        )
    ]
    if triton.ascend_backend and triton.has_init:
        # A source build or a vendor image without metadata: it works, nobody can prove what it is.
        yield unknown(
            LINK,
            LEFTOVER,
            blocks=False,
            reason=Text(
                "the triton folder has an Ascend backend but no owner, so its content cannot be verified",
                "triton 目录带有昇腾后端但没有归属，无法核实其内容",
            ),
            evidence=evidence,
        )
        return
    yield found(
        LINK,
        LEFTOVER,
        evidence=evidence,
        predicted_errors=["AttributeError: module 'triton' has no attribute '__version__'"]
        if not triton.has_init
        else [],
        remedy=Text("remove the folder, then install triton-ascend", "请删除该目录，然后安装 triton-ascend"),
    )


def _upstream(facts: Facts) -> Finding:
    triton = facts.triton
    owner = " + ".join(f"{claim.name} {claim.version}" for claim in triton.claims)
    return found(
        LINK,
        UPSTREAM,
        owner=owner,
        evidence=[
            Evidence("file", f"backends: {', '.join(triton.backends) or 'none'}", path=f"{triton.path}/backends")
        ],
        predicted_errors=[_NO_DRIVER],
        remedy=Text("uninstall {names}, then install", "请卸载 {names}，然后安装 ").format(
            names=" ".join(claim.name for claim in triton.claims)
        )
        + triton_ascend_pin(facts),
    )


def _judge(facts: Facts, ascend: TritonClaim) -> Iterator[Finding]:
    triton = facts.triton
    owner = f"{ascend.name} {ascend.version}"
    faults: list[Finding] = []
    if facts.target.is_planned:
        faults += _order_decides(facts, ascend)
    elif ascend.overwritten:
        faults.append(_overwritten(facts, ascend))
    elif ascend.missing:
        faults.append(_incomplete(ascend))
    else:
        faults += _stale_backends(triton, ascend)
    if triton.missing_imports:
        faults.append(_missing_imports(facts))
    yield from faults
    if facts.target.is_planned and not faults:
        yield passed(LINK, Text("{owner} planned", "计划安装 {owner}").format(owner=owner))
    elif not any(item.blocks or item.status == "unknown" for item in faults):
        others = [f"{claim.name} {claim.version}" for claim in triton.claims if claim is not ascend]
        beside = (
            Text(" beside {others}", "，与 {others} 并存").format(others=", ".join(others)) if others else Text("", "")
        )
        state = Text("{owner}, its files intact", "{owner}，文件完好").format(owner=owner)
        yield passed(LINK, Text(state.en + beside.en, state.zh + beside.zh))


def _overwritten(facts: Facts, ascend: TritonClaim) -> Finding:
    others = [claim for claim in facts.triton.claims if claim is not ascend]
    evidence = [
        Evidence("file", f"differs from the RECORD of {ascend.name} {ascend.version}", path=_in_site(facts, name))
        for name in ascend.overwritten_sample
    ]
    for claim in others:
        if claim.installed_at and ascend.installed_at and claim.installed_at > ascend.installed_at:
            evidence.append(
                Evidence("metadata", f"{claim.name} {claim.version} was installed after {ascend.name} {ascend.version}")
            )
    evidence += [Evidence("metadata", wish) for wish in facts.packages.triton_wanted_by]
    return found(
        LINK,
        OVERWRITTEN,
        count=ascend.overwritten,
        shared=ascend.shared,
        evidence=evidence,
        predicted_errors=[_NO_DRIVER],
        detail=Text(
            "Both own the folder triton/, and the one installed last wins; pip check does not see it.",
            "两者都拥有 triton/ 目录，后装者生效；pip check 发现不了。",
        ),
        remedy=Text(
            "uninstall {others}, then reinstall {name}=={version} with --force-reinstall --no-deps",
            "先卸载 {others}，再以 --force-reinstall --no-deps 重装 {name}=={version}",
        ).format(others=" ".join(claim.name for claim in others), name=ascend.name, version=ascend.version),
    )


def _in_site(facts: Facts, name: str) -> str:
    return f"{(facts.triton.path or 'triton').removesuffix('triton')}{name}"


def _incomplete(ascend: TritonClaim) -> Finding:
    return found(
        LINK,
        INCOMPLETE,
        owner=f"{ascend.name} {ascend.version}",
        count=ascend.missing,
        files=ascend.files,
        evidence=[Evidence("file", "in RECORD, not on disk", path=name) for name in ascend.missing_sample],
        predicted_errors=["AttributeError: module 'triton' has no attribute '__version__'"],
        detail=Text(
            "Uninstalling a package that shares the folder takes the shared files with it.",
            "卸载共用该目录的另一个包时，共有文件会一并删除。",
        ),
        remedy=Text(
            "reinstall {name}=={version} with --force-reinstall --no-deps",
            "以 --force-reinstall --no-deps 重装 {name}=={version}",
        ).format(name=ascend.name, version=ascend.version),
    )


def _stale_backends(triton: TritonFacts, ascend: TritonClaim) -> Iterator[Finding]:
    for broken in triton.breaks:
        claim = next((item for item in triton.claims if item.name == broken.owner), None)
        yield found(
            LINK,
            STALE_BACKEND,
            backend=broken.backend,
            owner=f"{claim.name} {claim.version}" if claim else "an earlier triton",
            evidence=at(broken.place),
            predicted_errors=[broken.error],
            detail=Text(
                "triton loads every folder under triton/backends, so one that does not fit fails them all.",
                "triton 会加载 triton/backends 下的每个目录，其中一个不匹配就会整体失败。",
            ),
            remedy=Text(
                "uninstall {other}, then reinstall {name}=={version} with --force-reinstall --no-deps",
                "先卸载 {other}，再以 --force-reinstall --no-deps 重装 {name}=={version}",
            ).format(other=claim.name if claim else "triton", name=ascend.name, version=ascend.version),
        )


def _missing_imports(facts: Facts) -> Finding:
    missing = facts.triton.missing_imports
    names = ", ".join(item.module for item in missing)
    return found(
        LINK,
        MISSING_IMPORT,
        modules=names,
        evidence=[evidence for item in missing for evidence in at(item.place)],
        predicted_errors=[f"ModuleNotFoundError: No module named '{item.module}'" for item in missing],
        detail=Text(
            "torch takes the failing import for «no triton», so the message a user sees can be another one.",
            "torch 会把这次导入失败当作“没有 triton”，用户看到的报错可能因此不同。",
        ),
        remedy=Text("{python} -m pip install {names}", "{python} -m pip install {names}").format(
            python=facts.interpreter.executable or "python", names=names.replace(",", "")
        ),
    )


CHECK = Check(
    link=LINK,
    title=Text("triton install", "triton 安装"),
    question=Text(
        "Which distribution owns triton/, are its files the recorded ones, and can it be imported?",
        "triton/ 归哪个软件包所有？文件是否与其 RECORD 一致？能否导入？",
    ),
    faults=(
        ABSENT,
        UPSTREAM,
        OVERWRITTEN,
        MISSING_IMPORT,
        LEFTOVER,
        INCOMPLETE,
        STALE_BACKEND,
        UNREADABLE,
        UNKNOWN_RELEASE,
        ORDER_DECIDES,
        WILL_DISPLACE,
    ),
    examine=examine,
    requires=("packages",),
    pages=Path(__file__).with_suffix(".toml"),
)
