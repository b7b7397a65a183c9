"""Link 10: do the attention kernels from the Hub fit what diffusers and transformers expect of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from flexdoctor.chain import Check
from flexdoctor.checks import _hub_remedies as remedies
from flexdoctor.checks._hub_fit import Machine, call_error, misfit, result_fit
from flexdoctor.checks._words import at, could_not_read, unreadable
from flexdoctor.facts import Facts
from flexdoctor.findings import Evidence, Fault, Finding, Severity, found, passed, skipped, unknown
from flexdoctor.hub_facts import (
    Backend,
    CallSite,
    DiffusersHub,
    HubAnswer,
    HubFacts,
    KernelFunction,
    Surface,
    TransformersHub,
    WantedName,
)
from flexdoctor.knowledge import load_table
from flexdoctor.text import NOTHING, Text

LINK = "hub_kernels"

NAME_MISSING = Fault(
    "FD301",
    Text(
        "{user}: {kernel} has no {name}",
        "{user}：{kernel} 没有 {name}",
    ),
    blocks=False,
)
CALL_MISFIT = Fault(
    "FD302",
    Text(
        "{user}: {name} of {kernel} does not take the arguments that it is called with",
        "{user}：{kernel} 的 {name} 不接受调用时传入的参数",
    ),
    blocks=False,
)
RESULT_MISFIT = Fault(
    "FD303",
    Text(
        "{user}: {name} of {kernel} does not return what its caller expects",
        "{user}：{kernel} 的 {name} 返回的不是调用方所期望的内容",
    ),
    blocks=False,
)
SINKS_DROPPED = Fault(
    "FD304",
    Text(
        "{user} drops attention sinks without a word: {kernel} calls them {name}",
        "{user} 会静默丢弃 attention sink：{kernel} 中的参数名是 {name}",
    ),
    severity="warning",
    blocks=False,
)
NO_VARIANT = Fault(
    "FD305",
    Text("{kernel} has no build for this environment", "{kernel} 没有适配当前环境的构建"),
    blocks=False,
)
VERSIONS = Fault(
    "FD306",
    Text("{consumer} does not work with {other} {version}", "{consumer} 与 {other} {version} 不兼容"),
    blocks=False,
)
NEVER_LOADED = Fault(
    "FD307",
    Text(
        "DIFFUSERS_ATTN_BACKEND={backend} selects a Hub kernel that is never loaded",
        "DIFFUSERS_ATTN_BACKEND={backend} 选择的 Hub 内核不会被加载",
    ),
    blocks=False,
)
UNTRUSTED = Fault(
    "FD308",
    Text(
        "the publisher of {kernel} is not a trusted one, so {consumer} refuses it",
        "{kernel} 的发布者不受信任，{consumer} 会拒绝加载",
    ),
    blocks=False,
)
OFFLINE = Fault(
    "FD309",
    Text(
        "{kernel} is cached but cannot be loaded offline by {consumer}",
        "{kernel} 已缓存，但 {consumer} 无法离线加载",
    ),
    blocks=False,
)
NOT_THERE = Fault(
    "FD310",
    Text("{kernel} cannot be had: {reason}", "无法获得 {kernel}：{reason}"),
    blocks=False,
)
DTYPES = Fault(
    "FD311",
    Text(
        "{user}: {name} of {kernel} does not take every dtype that its caller lets through",
        "{user}：{kernel} 的 {name} 不支持调用方放行的全部 dtype",
    ),
    severity="warning",
    blocks=False,
)
BAD_BACKEND = Fault(
    "FD312",
    Text(
        "DIFFUSERS_ATTN_BACKEND={value} is not a backend of {consumer}",
        "DIFFUSERS_ATTN_BACKEND={value} 不是 {consumer} 的后端",
    ),
    blocks=False,
)

_NO_FUNCTION = "TypeError: 'NoneType' object is not callable"
_USERS = ("diffusers", "transformers")
_TRUE = ("1", "true", "yes", "on")
_REASONS = {
    "no repository": Text("the Hub has no such repository, or it is private", "Hub 上没有该仓库，或为私有仓库"),
    "no revision": Text("the Hub does not have this version", "Hub 上没有该版本"),
    "gated": Text("access to it must be asked for on the Hub", "需先在 Hub 上申请访问权限"),
    "no answer": Text("the Hub gave no answer", "Hub 没有应答"),
    "offline": Text("offline mode is on", "已开启离线模式"),
    "not cached": Text("it is not in the cache (--online asks the Hub)", "本地缓存中没有（--online 可查询 Hub）"),
    "unreadable": Text("nothing of a kernel can be read there", "该处没有可读取的内核"),
}


def examine(facts: Facts) -> Iterator[Finding]:
    """Compare every kernel that could be loaded here with what its consumers make of it."""
    hub = facts.hub
    if hub is None:
        yield skipped(LINK, _why_nothing(facts))
        return
    findings = [
        *_unreadable(hub),
        *_versions(hub),
        *_selected(hub),
        *(_no_surface(answer) for answer in hub.answers),
        *(item for surface in hub.surfaces for item in _surface(facts, hub, surface)),
    ]
    if not findings:
        findings.append(_nothing_to_compare(facts, hub))
    yield from findings


def _why_nothing(facts: Facts) -> Text:
    """Say why nothing is known of consumers: there are none, or a list of pins does not hold their sources."""
    pinned = [item for name in _USERS if (item := facts.packages.find(name))]
    if facts.target.kind != "requirements" or not pinned:
        return Text("no diffusers or transformers here", "此环境没有 diffusers 或 transformers")
    return Text(
        "what {names} asks of Hub kernels is not in the knowledge base: flexdoctor check --wheels DIR reads it",
        "知识库中没有 {names} 对 Hub 内核的要求：可用 flexdoctor check --wheels DIR 读取",
    ).format(names=", ".join(f"{item.name} {item.version}".strip() for item in pinned))


def _unreadable(hub: HubFacts) -> Iterator[Finding]:
    if hub.unread:
        names = ", ".join(item.path.rpartition("/")[2] for item in hub.unread[:3])
        yield unknown(LINK, NAME_MISSING, could_not_read(names), evidence=unreadable(hub.unread))


def _surface(facts: Facts, hub: HubFacts, surface: Surface) -> Iterator[Finding]:
    """Everything about one kernel."""
    if not surface.functions and not surface.absent:
        yield unknown(
            LINK,
            NAME_MISSING,
            Text("could not tell what {kernel} offers", "无法判断 {kernel} 提供了什么").format(kernel=title(surface)),
            evidence=unreadable(surface.unread),
        )
        return
    if hub.kernels is None and surface.origin == "cache" and not (surface.asked_for or surface.in_use):
        return  # somebody else's cache: nothing here could load it
    found_any = False
    if hub.diffusers:
        for backend in hub.diffusers.backends:
            if _could_load(backend, surface):
                found_any = True
                yield from _Diffusers(facts, hub, hub.diffusers, backend, surface).examine()
    if hub.transformers and _transformers_could_load(hub.transformers, facts, surface):
        found_any = True
        yield from _Transformers(facts, hub, hub.transformers, surface).examine()
    chosen = surface.asked_for or surface.origin == "LOCAL_KERNELS"
    if found_any or chosen:
        yield from _variants(facts, hub, surface)
    if not found_any and chosen:
        yield _nobody(hub, surface)


def title(surface: Surface) -> str:
    """Name a kernel with its commit: a version like v1 is a branch, and moves."""
    name = surface.repo or surface.path.rpartition("/")[2]
    return f"{name}@{surface.commit[:8]}" if surface.commit else name


def _severity(hub: HubFacts, surface: Surface, backend: str | None = None) -> Severity:
    """Return error when the user chose this kernel, else warning: nobody may ever load it."""
    chosen = surface.asked_for or surface.in_use or surface.origin == "LOCAL_KERNELS"
    return "error" if chosen or (backend and hub.environment.get("DIFFUSERS_ATTN_BACKEND") == backend) else "warning"


def _with(finding: Finding, severity: Severity) -> Finding:
    return dataclasses.replace(finding, severity=severity) if finding.severity == "error" else finding


def _could_load(backend: Backend, surface: Surface) -> bool:
    """Whether diffusers would load this very kernel for that backend."""
    if "/" not in surface.repo:
        if surface.repo and surface.repo == backend.repo.rpartition("/")[2]:
            return True
        plain = next((name.path for name in backend.names if name.role == "plain"), None)
        return not surface.repo and plain is not None and surface.find(plain) is not None
    if surface.repo.lower() != backend.repo.lower():
        return False
    if surface.asked_for or surface.origin == "LOCAL_KERNELS":
        return True
    if backend.revision is not None:
        return backend.revision in surface.refs or (surface.commit or "").startswith(backend.revision)
    if backend.version is not None:
        return _is_version(surface, backend.version)
    return not surface.refs or "main" in surface.refs


def _is_version(surface: Surface, version: int) -> bool:
    """Whether a cached commit is that version: by the branches of the cache, else by what the kernel says itself."""
    if surface.refs_known:
        return f"v{version}" in surface.refs
    return surface.version in (None, version)


def _transformers_could_load(consumer: TransformersHub, facts: Facts, surface: Surface) -> bool:
    if surface.asked_for or surface.origin == "LOCAL_KERNELS":
        # By its repository any attention kernel can be named for it; other kernels are not entered this way.
        return bool(surface.functions) and (bool(surface.repo) or surface.find(consumer.varlen) is not None)
    known = {row.repo for row in consumer.versions} | {pair[-1] for pair in consumer.fallbacks}
    if surface.repo not in known:
        return False
    version = loaded_version(consumer, surface.repo, facts)
    return version is None or _is_version(surface, version)


def loaded_version(consumer: TransformersHub, repo: str, facts: Facts) -> int | None:
    """Return which version of a kernel transformers asks for here, None when that cannot be told."""
    row = next((item for item in consumer.versions if item.repo == repo), None)
    if row is None:
        return consumer.default_version
    if row.torch_from is None:
        return row.version
    if facts.torch is None:
        return None
    try:
        newer = Version(facts.torch.version).release >= Version(row.torch_from).release
    except InvalidVersion:
        return None
    return row.version if newer else row.version_below


class _Diffusers:
    """One backend of diffusers against one kernel."""

    def __init__(self, facts: Facts, hub: HubFacts, consumer: DiffusersHub, backend: Backend, surface: Surface) -> None:
        self.facts = facts
        self.hub = hub
        self.consumer = consumer
        self.backend = backend
        self.surface = surface
        # A folder that names no repository could stand in for any of them; which one, nobody said.
        self.severity: Severity = _severity(hub, surface, backend.name) if surface.repo else "warning"
        self.words: dict[str, Any] = {
            "user": f"diffusers {consumer.version} {backend.name}",
            "kernel": title(surface),
        }

    def examine(self) -> Iterator[Finding]:
        missing = [name for name in self.backend.names if name.path in self.surface.absent]
        if missing:
            yield self._missing(missing)
            return
        findings = [item for name in self.backend.names for item in self._name(name)]
        findings += _trust(self.hub, self.surface, f"diffusers {self.consumer.version}", self.consumer.checks_publisher)
        findings += _offline(self.hub, self.surface, f"diffusers {self.consumer.version}", self.backend.version)
        if not any(item.status in ("fail", "unknown") for item in findings):
            findings.append(
                passed(
                    LINK,
                    Text("{user} fits {kernel}", "{user} 与 {kernel} 相符").format(**self.words),
                    evidence=[*at(self.backend.place), *self._functions()],
                    detail=_other_version(self.backend, self.surface),
                )
            )
        yield from findings

    def _functions(self) -> Iterator[Evidence]:
        for name in self.backend.names:
            function = self.surface.find(name.path)
            if function:
                yield from at(function.place)

    def _missing(self, missing: list[WantedName]) -> Finding:
        first = missing[0]
        module = self.surface.module_name or "…"
        error = self.consumer.missing_name_error.replace("{module}", module).replace("{path}", first.path)
        private = all(name.role == "context parallel" for name in missing)
        detail = _where_from(self.surface)
        if not self.surface.repo:
            detail = Text(
                "That is, if it is put in place of {repo}: name it as {repo}=FOLDER.",
                "前提是用它替代 {repo}：请写作 {repo}=目录。",
            ).format(repo=self.backend.repo)
        if private:
            detail = detail + Text(
                "It is a private name that only context parallelism needs, but it is looked up whenever the backend is "
                "chosen.",
                "这是只有上下文并行才用到的内部名称，但只要选择该后端就会查找它。",
            )
        return _with(
            found(
                LINK,
                NAME_MISSING,
                evidence=[
                    *(item for name in missing for item in at(name.place)),
                    *at(self.consumer.missing_name_at),
                    Evidence("file", _offers(self.surface), path=self.surface.path),
                ],
                predicted_errors=[error] if error else [],
                detail=detail,
                remedy=remedies.for_name(self.facts, self.hub, self.consumer, self.backend, self.surface, missing),
                name=first.path + (f" (+{len(missing) - 1})" if len(missing) > 1 else ""),
                **self.words,
            ),
            self.severity,
        )

    def _name(self, name: WantedName) -> Iterator[Finding]:
        function = self.surface.find(name.path)
        if function is None or function.state == "maybe":
            yield unknown(
                LINK,
                NAME_MISSING,
                Text(
                    "{user}: could not tell whether {kernel} has {name}",
                    "{user}：无法判断 {kernel} 是否有 {name}",
                ).format(name=name.path, **self.words),
                evidence=[*at(name.place), *(at(function.place) if function else unreadable(self.surface.unread))],
            )
            return
        severity = self.severity if name.role == "plain" else "warning"
        for call in name.calls:
            yield from self._call(name, call, function, severity)
        if name.role == "plain":
            yield from self._dtypes(name, function)

    def _call(
        self, name: WantedName, call: CallSite, function: KernelFunction, severity: Severity
    ) -> Iterator[Finding]:
        words: dict[str, Any] = {**self.words, "name": name.path}
        evidence = [*at(call.place), *at(function.place)]
        parallel = NOTHING if name.role == "plain" else remedies.ONLY_PARALLEL
        error = call_error(function, call) if function.signature_known else None
        if error:
            remedy = remedies.for_call(self.facts, self.hub, self.consumer, self.backend, self.surface, "call")
            yield _with(
                found(
                    LINK, CALL_MISFIT, evidence=evidence, predicted_errors=[error], detail=parallel, remedy=remedy,
                    **words,
                ),
                severity,
            )  # fmt: skip
            return
        fit = result_fit(function, call)
        if fit.fit in ("mismatch", "only with lse"):
            yield self._result(name, call, function, severity)
        elif name.role == "plain" and (fit.fit == "cannot tell" or not function.signature_known):
            yield unknown(
                LINK,
                RESULT_MISFIT,
                Text(
                    "{user}: could not tell whether {name} of {kernel} fits: a compiled operator, or a result that "
                    "its sources do not show",
                    "{user}：无法判断 {kernel} 的 {name} 是否相符：它是编译后的算子，或从源码看不出返回值",
                ).format(**words),
                evidence=evidence,
            )

    def _result(self, name: WantedName, call: CallSite, function: KernelFunction, severity: Severity) -> Finding:
        fit = result_fit(function, call)
        detail = NOTHING
        if fit.silent:
            detail = (
                remedies.SILENT_ROWS if call.use != "tensor" and function.gives != "tuple" else remedies.SILENT_TUPLE
            )
        if fit.fit == "only with lse":
            detail = detail + remedies.ONLY_WITH_LSE
            severity = "warning"
        if name.role != "plain":
            detail = detail + remedies.ONLY_PARALLEL
        fault = "result with lse" if fit.fit == "only with lse" else "result"
        return _with(
            found(
                LINK,
                RESULT_MISFIT,
                evidence=[*at(call.place), *at(function.returns_at or function.place)],
                predicted_errors=[fit.error] if fit.error else [],
                detail=detail,
                remedy=remedies.for_call(self.facts, self.hub, self.consumer, self.backend, self.surface, fault),
                name=name.path,
                **self.words,
            ),
            severity,
        )

    def _dtypes(self, name: WantedName, function: KernelFunction) -> Iterator[Finding]:
        beyond = sorted(set(self.backend.dtypes) - set(function.dtypes))
        if function.dtypes and beyond:
            yield found(
                LINK,
                DTYPES,
                evidence=[
                    *at(name.place),
                    Evidence("file", f"takes {', '.join(function.dtypes)}", path=function.place.path),
                ],
                remedy=Text("use {dtypes}", "请使用 {dtypes}").format(dtypes=" / ".join(function.dtypes)),
                name=name.path,
                **self.words,
            )


def _other_version(backend: Backend, surface: Surface) -> Text:
    """Say so when what was looked at is not the version that the consumer asks for by itself."""
    if backend.version is None or not surface.refs or f"v{backend.version}" in surface.refs:
        return NOTHING
    return Text(
        "By itself this backend loads version {version}, and this is {refs}.",
        "该后端默认加载版本 {version}，而此处为 {refs}。",
    ).format(version=backend.version, refs=", ".join(surface.refs))


def _where_from(surface: Surface) -> Text:
    if surface.origin == "cache" and not surface.refs_known and surface.version is None:
        return Text(
            "The cache does not say which version this commit is; a kernel's version is a branch, and moves.",
            "缓存未记录该提交对应哪个版本；内核的版本是分支，会变动。",
        )
    return NOTHING


def _offers(surface: Surface) -> str:
    there = ", ".join(item.path for item in surface.functions) or "nothing that attention kernels are entered by"
    return f"offers {there}"


class _Transformers:
    """transformers against one kernel."""

    def __init__(self, facts: Facts, hub: HubFacts, consumer: TransformersHub, surface: Surface) -> None:
        self.facts = facts
        self.hub = hub
        self.consumer = consumer
        self.surface = surface
        # On an NPU torch_npu's own functions are taken, whatever kernel is named.
        self.npu = facts.torch_npu is not None and consumer.takes_npu_first is not None
        self.severity: Severity = "warning" if self.npu else _severity(hub, surface)
        self.words: dict[str, Any] = {
            "user": f"transformers {consumer.version}",
            "kernel": title(surface),
        }

    def examine(self) -> Iterator[Finding]:
        findings = list(self._names())
        name = f"transformers {self.consumer.version}"
        publisher = bool(self.hub.kernels and self.hub.kernels.checks_publisher)
        findings += _trust(self.hub, self.surface, name, publisher)
        findings += _offline(self.hub, self.surface, name, loaded_version(self.consumer, self.surface.repo, self.facts))
        if self.npu:
            findings = [self._on_npu(item) for item in findings]
        if not findings:
            findings.append(
                passed(
                    LINK,
                    Text("{user} fits {kernel}", "{user} 与 {kernel} 相符").format(**self.words),
                    evidence=[
                        *at(self.consumer.names_at),
                        *(item for path in self._read() for item in self._function_at(path)),
                    ],
                )
            )
        yield from findings

    def _on_npu(self, finding: Finding) -> Finding:
        return dataclasses.replace(
            finding,
            detail=finding.detail
            + Text(
                "On an NPU transformers takes the functions of torch_npu instead, whatever kernel is named.",
                "在 NPU 上，无论指定哪个内核，transformers 都会改用 torch_npu 的函数。",
            ),
            evidence=(*finding.evidence, *at(self.consumer.takes_npu_first)),
        )

    def _read(self) -> tuple[str, ...]:
        return self.consumer.varlen, self.consumer.plain

    def _function_at(self, path: str) -> tuple[Evidence, ...]:
        function = self.surface.find(path)
        return at(function.place) if function else ()

    def _names(self) -> Iterator[Finding]:
        consumer, surface = self.consumer, self.surface
        if consumer.varlen in surface.absent:
            if not any(surface.find(name) for name in consumer.alternatives):
                yield self._missing(consumer.varlen, self._no_varlen_error())
            return
        varlen = surface.find(consumer.varlen)
        if varlen is None or varlen.state == "maybe":
            yield self._untold(consumer.varlen, varlen)
            return
        if consumer.plain in surface.absent:
            error = consumer.missing_error if consumer.plain_required else _NO_FUNCTION
            yield self._missing(consumer.plain, error.replace("{implementation}", self._implementation()))
        yield from self._call(varlen, consumer.varlen_call)
        plain = surface.find(consumer.plain)
        if plain is not None and plain.state != "maybe":
            yield from self._call(plain, consumer.plain_call)
        yield from self._sinks(varlen)

    def _implementation(self) -> str:
        # Older versions hand the loaded module around, newer ones its name.
        return self.surface.repo if self.consumer.passes_version and self.surface.repo else "…"

    def _no_varlen_error(self) -> str:
        if self.consumer.unbound is None:
            return self.consumer.missing_error.replace("{implementation}", self._implementation())
        name = self.consumer.unbound
        version = self.facts.interpreter.version or ""
        if version.startswith("3.10"):
            return f"UnboundLocalError: local variable '{name}' referenced before assignment"
        return f"UnboundLocalError: cannot access local variable '{name}' where it is not associated with a value"

    def _missing(self, name: str, error: str) -> Finding:
        detail = NOTHING
        if error == _NO_FUNCTION:
            detail = Text(
                "It loads with a warning; what fails is the first batch without padding.",
                "加载时仅有警告；首个无填充的批次才会失败。",
            )
        elif name == self.consumer.varlen and self.surface.functions:
            detail = Text(
                "It can still be named with one of its functions ({repo}:FUNCTION), which must then take what "
                "transformers passes to an attention function.",
                "仍可指定其中的函数（{repo}:函数名），但该函数须接受 transformers 传给注意力函数的参数。",
            ).format(repo=self.surface.repo or "org/name")
        return _with(
            found(
                LINK,
                NAME_MISSING,
                evidence=[
                    *at(self.consumer.names_at),
                    *at(self.consumer.unbound_at if name == self.consumer.varlen else None),
                    Evidence("file", _offers(self.surface), path=self.surface.path),
                ],
                predicted_errors=[error] if error else [],
                detail=detail,
                remedy=remedies.other_kernel(self.consumer),
                name=name,
                **self.words,
            ),
            self.severity,
        )

    def _untold(self, name: str, function: KernelFunction | None) -> Finding:
        return unknown(
            LINK,
            NAME_MISSING,
            Text(
                "{user}: could not tell whether {kernel} has {name}",
                "{user}：无法判断 {kernel} 是否有 {name}",
            ).format(name=name, **self.words),
            evidence=at(function.place) if function else unreadable(self.surface.unread),
        )

    def _call(self, function: KernelFunction, call: CallSite | None) -> Iterator[Finding]:
        if call is None:
            return
        if not function.signature_known:
            yield unknown(
                LINK,
                CALL_MISFIT,
                Text(
                    "{user}: could not tell whether {name} of {kernel} takes the arguments that it is called with",
                    "{user}：无法判断 {kernel} 的 {name} 是否接受调用时传入的参数",
                ).format(name=function.path, **self.words),
                evidence=[*at(call.place), *at(function.place)],
            )
            return
        error = call_error(function, call)
        if error:
            yield _with(
                found(
                    LINK,
                    CALL_MISFIT,
                    evidence=[*at(call.place), *at(function.place)],
                    predicted_errors=[error],
                    remedy=remedies.other_kernel(self.consumer),
                    name=function.path,
                    **self.words,
                ),
                self.severity,
            )

    def _sinks(self, function: KernelFunction) -> Iterator[Finding]:
        known = self.consumer.sink_names
        theirs = next((name for name in ("sink", "sinks") if function.parameter(name)), None)
        if not known or theirs is None or any(function.parameter(name) for name in known):
            return
        yield found(
            LINK,
            SINKS_DROPPED,
            evidence=[*at(function.place), *at(self.consumer.varlen_call.place if self.consumer.varlen_call else None)],
            detail=Text(
                "Models with learned sinks (gpt-oss) give wrong text without any error; it knows the names {names}.",
                "带有可学习 sink 的模型（如 gpt-oss）会输出错误文本且无报错；它只认识 {names}。",
            ).format(names=" / ".join(known)),
            remedy=remedies.other_kernel(self.consumer),
            name=theirs,
            **self.words,
        )


def _variants(facts: Facts, hub: HubFacts, surface: Surface) -> Iterator[Finding]:
    """Find out whether one of the builds can be loaded by this torch on this machine."""
    # A cache holds what was fetched, not what there is: a build for the torch of today may still be on the Hub.
    if not surface.variants or surface.origin == "cache" or facts.torch is None:
        return
    machine = machine_of(facts, hub)
    reasons = {variant.name: misfit(variant, machine) for variant in surface.variants}
    if any(reason == "" for reason in reasons.values()):
        return
    words: dict[str, Any] = {"kernel": title(surface)}
    evidence = [
        Evidence("file", reason or f"{name}: could not tell", path=surface.path) for name, reason in reasons.items()
    ]
    shown = evidence[:12]
    if None in reasons.values():
        reason = Text("could not tell whether a build of {kernel} fits", "无法判断 {kernel} 的构建是否适配")
        yield unknown(LINK, NO_VARIANT, reason.format(**words), evidence=shown)
        return
    revision = surface.commit or "…"
    npu = machine.backend == "cann"
    yield _with(
        found(
            LINK,
            NO_VARIANT,
            evidence=shown,
            predicted_errors=[
                "FileNotFoundError: Cannot find a build variant for this system in "
                f"{surface.repo} (revision: {revision}):"
            ],
            remedy=remedies.NPU_BACKEND if npu else remedies.OTHER_VERSION,
            **words,
        ),
        _severity(hub, surface),
    )


def machine_of(facts: Facts, hub: HubFacts) -> Machine:
    """Return what build variants are chosen by, in the way of `kernels`: the build of torch, not the hardware."""
    torch = facts.torch
    backend = version = None
    if torch is not None:
        if facts.torch_npu is not None:
            backend, version = "cann", _cann(facts)
        elif torch.cuda:
            backend, version = "cuda", torch.cuda
        elif "+rocm" in torch.version or "+xpu" in torch.version:
            backend = "rocm" if "+rocm" in torch.version else "xpu"
        else:
            backend = "cpu"
    return Machine(
        torch=torch.version if torch else None,
        cxx11_abi=hub.cxx11_abi,
        backend=backend,
        backend_version=version,
        architecture=facts.interpreter.architecture,
        knows_stable_abi=hub.kernels.knows_stable_abi if hub.kernels else None,
    )


def _cann(facts: Facts) -> str | None:
    cann = facts.machine.cann if facts.machine else ()
    return cann[0].version if cann else None


def _trust(hub: HubFacts, surface: Surface, consumer: str, asks: bool) -> Iterator[Finding]:
    allowed = hub.environment.get("DIFFUSERS_TRUST_REMOTE_KERNELS", "").lower() in _TRUE
    if surface.publisher_trusted is False and asks and not (allowed and consumer.startswith("diffusers")):
        yield _with(
            found(
                LINK,
                UNTRUSTED,
                evidence=[Evidence("probe", "the Hub does not list its publisher as a trusted one", path=surface.path)],
                remedy=remedies.TRUST if consumer.startswith("diffusers") else remedies.TRUST_TRANSFORMERS,
                kernel=title(surface),
                consumer=consumer,
            ),
            _severity(hub, surface),
        )


def _offline(hub: HubFacts, surface: Surface, consumer: str, version: int | None) -> Iterator[Finding]:
    """Find out whether a cached kernel can be loaded again without the Hub, which is not always so."""
    offline = hub.environment.get("HF_HUB_OFFLINE", "").lower() in _TRUE
    kernels = hub.kernels
    if not offline or surface.origin != "cache" or kernels is None:
        return
    errors = []
    if version is not None and f"v{version}" not in surface.refs and kernels.offline_version_error:
        text = kernels.offline_version_error
        errors.append(text.replace("{version}", str(version)).replace("{repo}", surface.repo))
    rules = [row for row in load_table("hub")["offline"] if _inside(hub.huggingface_hub, row["huggingface_hub"])]
    if surface.partial and rules:
        errors.append("FileNotFoundError: Cannot find a local snapshot")
    if errors:
        yield found(
            LINK,
            OFFLINE,
            evidence=[
                Evidence("variable", f"HF_HUB_OFFLINE={hub.environment['HF_HUB_OFFLINE']}"),
                Evidence("file", f"refs: {', '.join(surface.refs) or 'none'}", path=surface.path),
                *(
                    Evidence("knowledge", row["text"], source=f"{row['source']}, {row['date']}")
                    for row in rules
                    if surface.partial
                ),
            ],
            predicted_errors=errors,
            remedy=remedies.OFFLINE.format(repo=surface.repo, version=version, path=remedies.repository(surface)),
            kernel=title(surface),
            consumer=consumer,
        )


def _inside(version: str | None, specifier: str) -> bool | None:
    """Whether a version lies in a range; None when either cannot be read."""
    try:
        return SpecifierSet(specifier).contains(Version(version or ""), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None


def _versions(hub: HubFacts) -> Iterator[Finding]:
    """Compare the four packages with what each of them asks of the others."""
    kernels, diffusers, transformers = hub.kernels, hub.diffusers, hub.transformers
    if transformers is not None:
        yield from _transformers_versions(hub, transformers)
    if diffusers is not None:
        yield from _diffusers_versions(hub, diffusers)
    for name, bound in (
        ("diffusers", diffusers.huggingface_hub if diffusers else None),
        ("kernels", kernels.huggingface_hub if kernels else None),
    ):
        owner = diffusers if name == "diffusers" else kernels
        if owner and bound and hub.huggingface_hub and _inside(hub.huggingface_hub, bound) is False:
            yield _version_clash(f"{name} {owner.version}", "huggingface_hub", hub.huggingface_hub, bound, "warning")


def _transformers_versions(hub: HubFacts, transformers: TransformersHub) -> Iterator[Finding]:
    consumer = f"transformers {transformers.version}"
    bound, installed = transformers.huggingface_hub, hub.huggingface_hub
    if bound and installed and _inside(installed, bound) is False:
        checked = transformers.checked_at_import
        error = (
            f"ImportError: {checked} is required for a normal functioning of this module, "
            f"but found huggingface-hub=={installed}."
        )
        # Checked at import: then nothing of transformers works at all.
        yield _version_clash(
            consumer, "huggingface_hub", installed, bound, "error" if checked else "warning", [error] if checked else []
        )
    kernels = hub.kernels
    if kernels and transformers.kernels_range and _inside(kernels.version, transformers.kernels_range) is False:
        errors = [transformers.missing_kernels_error] if transformers.kernels_range_enforced else []
        yield _version_clash(
            consumer,
            "kernels",
            kernels.version,
            transformers.kernels_range,
            "warning",
            errors,
            at(transformers.kernels_range_at),
        )


def _diffusers_versions(hub: HubFacts, diffusers: DiffusersHub) -> Iterator[Finding]:
    kernels = hub.kernels
    if kernels is None:
        return
    consumer = f"diffusers {diffusers.version}"
    bare = [item for item in diffusers.backends if item.version is None and item.revision is None]
    if bare and kernels.version_required:
        yield dataclasses.replace(
            _version_clash(
                f"{consumer} ({', '.join(item.name for item in bare)})",
                "kernels",
                kernels.version,
                "",
                "warning",
                [kernels.version_required_error],
                [*(place for item in bare for place in at(item.place)), *at(kernels.version_required_at)],
            ),
            remedy=remedies.for_version_required(),
            detail=Text(
                "These backends name neither version nor revision, and this kernels loads nothing without one.",
                "这些后端未指定版本或修订，而此版 kernels 不接受未指定版本的加载。",
            ),
        )
    old = [
        item
        for item in diffusers.backends
        if item.kernels_minimum and _inside(kernels.version, f">={item.kernels_minimum}") is False
    ]
    if old:
        minimum = old[0].kernels_minimum or ""
        names = ", ".join(item.name for item in old)
        yield _version_clash(f"{consumer} ({names})", "kernels", kernels.version, f">={minimum}", "warning")


def _version_clash(
    consumer: str,
    other: str,
    version: str,
    wanted: str,
    severity: Severity,
    errors: Iterable[str] = (),
    evidence: Iterable[Evidence] = (),
) -> Finding:
    said = [
        Evidence("knowledge", row["text"], source=f"{row['source']}, {row['date']}; not verified")
        for row in load_table("hub")["announced"]
        if row["about"] == VERSIONS.code and other == "kernels" and wanted
    ]
    remedy = (
        Text('python -m pip install "{other}{wanted}"', 'python -m pip install "{other}{wanted}"')
        if wanted
        else NOTHING
    )
    finding = found(
        LINK,
        VERSIONS,
        evidence=[*evidence, Evidence("metadata", f"{consumer} wants {other}{wanted}, {version} is installed"), *said]
        if wanted
        else list(evidence),
        predicted_errors=[item for item in errors if item],
        remedy=remedy.format(other=other, wanted=wanted) if wanted else NOTHING,
        consumer=consumer,
        other=other,
        version=version,
    )
    return dataclasses.replace(finding, severity=severity)


def _selected(hub: HubFacts) -> Iterator[Finding]:
    """Judge the backend that the environment selects for diffusers."""
    diffusers, value = hub.diffusers, hub.environment.get("DIFFUSERS_ATTN_BACKEND")
    if diffusers is None or not value:
        return
    variable = Evidence("variable", f"DIFFUSERS_ATTN_BACKEND={value}")
    backend = next((item for item in diffusers.backends if item.name == value), None)
    if backend is not None:
        yield found(
            LINK,
            NEVER_LOADED,
            evidence=[
                variable,
                *at(diffusers.loader_at),
                *at(backend.names[0].calls[0].place if backend.names and backend.names[0].calls else None),
            ],
            predicted_errors=[_NO_FUNCTION],
            detail=Text(
                "A kernel is loaded by {functions} and by set_attention_backend of a model; the variable skips both, "
                "and so does set_attention_backend of a single attention module.",
                "内核由 {functions} 或模型的 set_attention_backend 加载；环境变量绕过了二者，"
                "对单个注意力模块调用 set_attention_backend 也一样。",
            ).format(functions=", ".join(diffusers.loads_in) or "attention_backend()"),
            remedy=Text(
                'unset the variable and call pipe.transformer.set_attention_backend("{backend}"), or use '
                'with attention_backend("{backend}")',
                '取消该变量，改为调用 pipe.transformer.set_attention_backend("{backend}")，'
                '或使用 with attention_backend("{backend}")',
            ).format(backend=value),
            backend=value,
        )
    elif diffusers.backend_names and value not in diffusers.backend_names:
        yield found(
            LINK,
            BAD_BACKEND,
            evidence=[variable, *at(diffusers.backend_names_at)],
            predicted_errors=[f"ValueError: '{value}' is not a valid AttentionBackendName"],
            detail=Text("Importing the attention module of diffusers fails.", "导入 diffusers 的注意力模块会失败。"),
            remedy=Text("one of {names}", "可选：{names}").format(names=", ".join(diffusers.backend_names)),
            value=value,
            consumer=f"diffusers {diffusers.version}",
        )


def _no_surface(answer: HubAnswer) -> Finding:
    kernel = f"{answer.repo}@{answer.wanted}" if answer.repo and answer.wanted else answer.repo or answer.wanted
    reason = _REASONS[answer.state]
    evidence = [Evidence("probe", answer.text or answer.state)]
    if answer.state in ("no answer", "offline", "not cached"):
        # Nothing is known about the kernel; neither connection nor cache is what was asked about.
        return unknown(LINK, NOT_THERE, Text(f"{kernel}: {reason.en}", f"{kernel}：{reason.zh}"), evidence=evidence)
    finding = found(LINK, NOT_THERE, evidence=evidence)
    return dataclasses.replace(
        finding,
        title=Text(
            NOT_THERE.title.en.format(kernel=kernel, reason=reason.en),
            NOT_THERE.title.zh.format(kernel=kernel, reason=reason.zh),
        ),
    )


def _nobody(hub: HubFacts, surface: Surface) -> Finding:
    consumers = [
        f"{name} {item.version}"
        for name, item in (("diffusers", hub.diffusers), ("transformers", hub.transformers))
        if item is not None
    ]
    text = Text(
        "{kernel} was read; {consumers} never load it by themselves",
        "已读取 {kernel}；{consumers} 不会自行加载它",
    )
    if not consumers:
        text = Text("{kernel} was read; no consumer is here", "已读取 {kernel}；此环境没有使用它的库")
    return passed(
        LINK,
        text.format(kernel=title(surface), consumers=", ".join(consumers)),
        evidence=[Evidence("file", _offers(surface), path=surface.path)],
    )


def _nothing_to_compare(facts: Facts, hub: HubFacts) -> Finding:
    there = [
        f"{name} {item.version}"
        for name, item in (("diffusers", hub.diffusers), ("transformers", hub.transformers), ("kernels", hub.kernels))
        if item is not None
    ]
    if facts.target.kind == "wheels":
        return passed(
            LINK,
            Text(
                "the versions of {names} fit each other; no kernel was looked at",
                "{names} 的版本相互匹配；未检查任何内核",
            ).format(names=", ".join(there)),
        )
    detail = Text(
        "flexdoctor check --kernel REPO@VERSION --online asks the Hub about one.",
        "flexdoctor check --kernel REPO@VERSION --online 可就某个内核查询 Hub。",
    )
    if facts.torch_npu is not None:
        detail = remedies.NPU_BACKEND + detail
    return passed(
        LINK,
        Text("no Hub kernel is selected or cached ({names})", "未选择也未缓存任何 Hub 内核（{names}）").format(
            names=", ".join(there)
        ),
        detail=detail,
    )


CHECK = Check(
    link=LINK,
    title=Text("hub kernels", "Hub 内核"),
    question=Text(
        "Do the attention kernels from the Hub have the names, arguments and results that diffusers and transformers "
        "expect, and do their versions go together?",
        "Hub 注意力内核的名称、参数与返回值是否符合 diffusers 与 transformers 的预期？各版本是否匹配？",
    ),
    faults=(
        NAME_MISSING,
        CALL_MISFIT,
        RESULT_MISFIT,
        SINKS_DROPPED,
        NO_VARIANT,
        VERSIONS,
        NEVER_LOADED,
        UNTRUSTED,
        OFFLINE,
        NOT_THERE,
        DTYPES,
        BAD_BACKEND,
    ),
    examine=examine,
    pages=Path(__file__).with_suffix(".toml"),
)
