"""Let diffusers ask a kernel from the Hub for the names which it has, by a source patch of its registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flexdoctor.fixes import hub_consumer
from flexdoctor.text import Text
from flexdoctor.treatment.patches import file_of, patch_for
from flexdoctor.treatment.plan import Fix, Situation, Step

NAME = "hub_registry"
OPENS = hub_consumer.OPENS


def propose(situation: Situation) -> Iterator[Step]:
    """Patch the registry where a newer diffusers cannot be moved to alone."""
    if not hub_consumer.renamed(situation) or hub_consumer.suitable(situation):
        return
    site = hub_consumer.site(situation)
    patch = patch_for(NAME, Path(site).expanduser(), situation.installed(hub_consumer.CONSUMER))
    if patch is None:
        return
    path = f"{site}/{file_of(NAME)}"
    lines = ", ".join(str(line) for line in (patch.line, *patch.also))
    yield Step(
        "patch",
        NAME,
        Text("let diffusers ask for the names that the kernel has", "让 diffusers 查找内核实际具有的名称"),
        opens=OPENS,
        path=path,
        patch=patch,
        touches=Text("{path}, lines {lines}", "{path} 第 {lines} 行").format(path=path, lines=lines),
        note=Text(
            "costs: a reinstall of diffusers undoes it; a newer diffusers would need other packages, too, or the "
            "network (flexdoctor check has all ways out)",
            "代价：重装 diffusers 后失效；升级 diffusers 则还需变动其他软件包或联网（全部办法见 flexdoctor check）",
        ),
    )


FIX = Fix(
    name=NAME,
    title=Text(
        "let diffusers ask for the names that the kernel has (source patch)",
        "让 diffusers 查找内核实际具有的名称（源码补丁）",
    ),
    opens=OPENS,
    propose=propose,
)
