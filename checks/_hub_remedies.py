"""What helps against a kernel that does not fit: newer consumer, patch, pin, another backend, with what each costs."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from flexdoctor.facts import Facts
from flexdoctor.hub_facts import Backend, DiffusersHub, HubFacts, Surface, TransformersHub, WantedName
from flexdoctor.knowledge import load_table
from flexdoctor.text import NOTHING, Text

ONLY_PARALLEL = Text("Only context parallelism takes this path.", "只有上下文并行才走这条路径。")
ONLY_WITH_LSE = Text(
    "Only when the log-sum-exp is asked for (return_lse=True).", "仅在请求 log-sum-exp（return_lse=True）时。"
)
SILENT_ROWS = Text(
    "No error: the tensor is taken apart along its first dimension, and the first row goes on as the result.",
    "不会报错：张量沿第一维被拆开，第一行被当作结果继续使用。",
)
SILENT_TUPLE = Text(
    "No error here: a tuple goes on to the model where a tensor is expected.",
    "此处不报错：元组被当作张量传给模型。",
)
NPU_BACKEND = Text(
    "On an NPU use the backend _native_npu of diffusers, or flash_attention_2 of transformers, which both go through "
    "torch_npu.",
    "在 NPU 上请使用 diffusers 的 _native_npu 后端或 transformers 的 flash_attention_2，二者均经由 torch_npu。",
)
OTHER_VERSION = Text(
    "take a version of the kernel that has a build for this torch (a stable-ABI build fits every newer one), or "
    "the torch that it was built for",
    "请换用为此 torch 构建的内核版本（稳定 ABI 构建适用于更新的 torch），或换用其对应的 torch",
)
TRUST = Text(
    "if you trust it: export DIFFUSERS_TRUST_REMOTE_KERNELS=true (its code is run)",
    "若信任该发布者：export DIFFUSERS_TRUST_REMOTE_KERNELS=true（会执行其代码）",
)
TRUST_TRANSFORMERS = Text(
    "if you trust it: pass allow_all_kernels=True (its code is run)",
    "若信任该发布者：传入 allow_all_kernels=True（会执行其代码）",
)
OFFLINE = Text(
    "while online, fetch the whole repository (all builds, so larger): hf download {repo} --repo-type kernel "
    "--revision v{version}; or without the network: export LOCAL_KERNELS={repo}={path}",
    "联网时下载整个仓库（含全部构建，体积较大）：hf download {repo} --repo-type kernel --revision v{version}；"
    "或无需联网：export LOCAL_KERNELS={repo}={path}",
)


def _moved_to(consumer: str, version: str, fault: str, backend: str, names: Iterable[str]) -> str | None:
    """Return the first newer version of a consumer that ends this mismatch, None when none is known."""
    names = tuple(names)
    for row in load_table("hub")["moved"]:
        if row["consumer"] != consumer or row["fault"] != fault or row["backend"] not in ("", backend):
            continue
        if row["name"] and not all(row["name"] in name for name in names):
            continue
        try:
            if Version(version) < Version(row["version"]):
                return str(row["version"])
        except InvalidVersion:
            return None
    return None


def _newer(version: str) -> Text:
    return Text(
        'move to diffusers>={version}: python -m pip install "diffusers>={version}" (its bound on huggingface_hub '
        "moves with it)",
        '升级到 diffusers>={version}：python -m pip install "diffusers>={version}"（其 huggingface_hub 约束随之变化）',
    ).format(version=version)


def _another_backend(facts: Facts, backend: str) -> Text:
    if facts.torch_npu is not None:
        return Text(
            'select _native_npu: set_attention_backend("_native_npu") (no change of packages)',
            '改选 _native_npu：set_attention_backend("_native_npu")（无需改动软件包）',
        )
    return Text(
        'select another backend: set_attention_backend("native") (no change of packages, slower than {backend})',
        '改选其他后端：set_attention_backend("native")（无需改动软件包，比 {backend} 慢）',
    ).format(backend=backend)


def _numbered(options: Iterable[Text]) -> Text:
    """Join alternatives in order; a single one stands alone."""
    options = [item for item in options if item.en]
    if len(options) < 2:
        return options[0] if options else NOTHING
    return Text(
        "; ".join(f"({number}) {item.en}" for number, item in enumerate(options, 1)),
        "；".join(f"({number}) {item.zh}" for number, item in enumerate(options, 1)),
    )


def for_name(
    facts: Facts,
    hub: HubFacts,
    consumer: DiffusersHub,
    backend: Backend,
    surface: Surface,
    missing: list[WantedName],
) -> Text:
    """Return the ways out of a missing name."""
    newer = _moved_to("diffusers", consumer.version, "name", backend.name, [name.path for name in missing])
    return _numbered(
        [
            _newer(newer) if newer else NOTHING,
            _patch(surface, missing),
            _pin(hub, backend, surface),
            _another_backend(facts, backend.name),
        ]
    )


def _patch(surface: Surface, missing: list[WantedName]) -> Text:
    """Offer the registry patch only where the kernel has every name under its plain spelling."""
    plain = {name.path: name.path.replace("._wrapped_", "._") for name in missing}
    if any(old == new or surface.find(new) is None for old, new in plain.items()):
        return NOTHING
    lines = ", ".join(f"{name.place.path.rpartition('/')[2]}:{name.place.line}" for name in missing)
    return Text(
        "drop «_wrapped» from the names at {lines}, which the kernel has (lost with the next install)",
        "将 {lines} 处名称中的“_wrapped”去掉，内核中有去掉后的名称（重装后失效）",
    ).format(lines=lines)


def _pin(hub: HubFacts, backend: Backend, surface: Surface) -> Text:
    """Offer a cached commit that has every name, if there is one; a version is a branch and is no pin."""
    if hub.kernels is not None and not hub.kernels.knows_local_kernels:
        return NOTHING
    for other in hub.surfaces:
        if other is surface or other.repo != backend.repo or other.commit is None:
            continue
        if all(other.find(name.path) for name in backend.names):
            return Text(
                "pin the commit {commit}, which has them: export LOCAL_KERNELS={repo}={path} (it no longer moves)",
                "固定到具备这些名称的提交 {commit}：export LOCAL_KERNELS={repo}={path}（此后不再变动）",
            ).format(commit=other.commit[:8], repo=backend.repo, path=repository(other))
    return NOTHING


def repository(surface: Surface) -> str:
    """Return the folder of a whole kernel as a shell takes it: all builds, so that the fitting one is chosen."""
    folder = surface.path.partition("/build/")[0]
    # A shell does not expand ~ behind the second equals sign of LOCAL_KERNELS=repo=~/...
    return f"$HOME{folder[1:]}" if folder.startswith("~") else folder


def for_call(
    facts: Facts, hub: HubFacts, consumer: DiffusersHub, backend: Backend, surface: Surface, fault: str
) -> Text:
    """Return the ways out of a call or a result that does not fit."""
    newer = _moved_to("diffusers", consumer.version, fault, backend.name, ())
    helps = newer is not None and (fault != "result" or not _always_tuple(surface))
    return _numbered(
        [
            _newer(newer) if newer and helps else NOTHING,
            _pin(hub, backend, surface) if fault != "call" else NOTHING,
            _another_backend(facts, backend.name),
        ]
    )


def _always_tuple(surface: Surface) -> bool:
    function = surface.find("flash_attn_varlen_func")
    return function is not None and function.gives == "tuple"


def for_version_required() -> Text:
    """Return the ways out of a consumer that names no version."""
    row = next(row for row in load_table("hub")["moved"] if row["fault"] == "version required")
    return _numbered(
        [
            _newer(row["version"]),
            Text(
                'select another backend: set_attention_backend("native") (no change of packages)',
                '改选其他后端：set_attention_backend("native")（无需改动软件包）',
            ),
        ]
    )


def other_kernel(consumer: TransformersHub) -> Text:
    """Return what to name in attn_implementation instead."""
    repos = " / ".join(dict.fromkeys(pair[-1] for pair in consumer.fallbacks))
    return Text(
        'name a kernel that is made for it ({repos}), or attn_implementation="sdpa"',
        '换用为其制作的内核（{repos}），或 attn_implementation="sdpa"',
    ).format(repos=repos or "kernels-community/flash-attn2")
