"""Give the triton folder back to triton-ascend: upstream triton out, leftovers out, triton-ascend in, last."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.fixes import stack
from flexdoctor.knowledge.stacks import same_version
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step, uninstall_step

NAME = "triton"
ABSENT, UPSTREAM, OVERWRITTEN, LEFTOVER, INCOMPLETE, STALE = "FD211", "FD212", "FD213", "FD215", "FD216", "FD217"
OPENS = (ABSENT, UPSTREAM, OVERWRITTEN, LEFTOVER, INCOMPLETE, STALE)


def propose(situation: Situation) -> Iterator[Step]:
    """Uninstall what displaces it, remove what nobody owns, reinstall triton-ascend without dependencies."""
    codes = situation.has(*OPENS)
    version, index = _version(situation)
    if not codes or not version:
        return
    others = [claim.name for claim in situation.facts.triton.claims if not claim.has_ascend_backend]
    for name in others:
        yield uninstall_step(situation, NAME, name, opens=codes)
    if LEFTOVER in codes and situation.facts.triton.path:
        yield _remove(situation.facts.triton.path, codes)
    note = stack.index_note(situation, "triton-ascend", index)
    yield install_step(situation, NAME, "triton-ascend", version, opens=codes, index=index, note=note)


def _version(situation: Situation) -> tuple[str, str]:
    """Return which triton-ascend to install: the target's, else the one that is there; empty when nobody knows."""
    target, here = situation.target, situation.installed("triton-ascend")
    if target and target.triton_ascend:
        same_pair = all(same_version(situation.installed(name), target.pin(name)) for name in ("torch", "torch-npu"))
        if same_pair or stack.needed(situation):
            return target.triton_ascend, situation.index_of("triton-ascend")
    # The pair is in no known set and nothing else is wrong with it: what its owner chose is put back as it was.
    return here, ""


def _remove(path: str, codes: tuple[str, ...]) -> Step:
    command = f"rm -r {path}"
    return Step(
        "remove",
        NAME,
        Text("remove the ownerless folder {path}", "删除无归属的目录 {path}").format(path=path),
        opens=codes,
        path=path,
        command=Text(command, command),
        touches=Text("everything below {path}", "{path} 下的全部内容").format(path=path),
    )


FIX = Fix(
    name=NAME,
    title=Text(
        "uninstall upstream triton and leftovers, reinstall triton-ascend",
        "卸载上游 triton 与残留文件，重装 triton-ascend",
    ),
    opens=OPENS,
    propose=propose,
)
