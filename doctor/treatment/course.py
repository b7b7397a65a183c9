"""The course of a treatment: fetch, keep, step by step, verify; and the way back."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from packaging.markers import InvalidMarker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Report
from flexdoctor.readers.packages import InstalledDistribution, find_distributions
from flexdoctor.serialise import from_json, to_json
from flexdoctor.text import NOTHING, Text
from flexdoctor.treatment import journal, keeping
from flexdoctor.treatment.installers import Fetched, IndexOptions, Installer, InstallerError, InstallerName, choose
from flexdoctor.treatment.journal import Entry, Lock
from flexdoctor.treatment.keeping import Ground, Mark
from flexdoctor.treatment.patches import apply_patch
from flexdoctor.treatment.plan import Plan, Step, TreatmentError, answer_of_packages
from flexdoctor.treatment.target import Target, refusal

#: Distributions whose requirements a plan answers itself, or must not follow: upstream triton displaces triton-ascend.
_NEVER_FOLLOWED = ("triton", "triton-ascend", "torch", "torch-npu")
#: What triton-ascend lists beside its needs: the tools of its own tests, which a wheelhouse need not hold.
_TEST_TOOLS = ("pytest", "pytest-xdist")

Examine = Callable[[], tuple[Facts, Report]]
Progress = Callable[[Text], None]


@dataclass(frozen=True)
class Options:
    """How to apply a plan."""

    indexes: IndexOptions = field(default_factory=IndexOptions)
    installer: InstallerName = "auto"
    #: Whether what is installed may move when the metadata of a planned package asks for it.
    with_dependencies: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a treatment ended. `problems` say why it was rolled back."""

    entry_id: str
    before: Report
    after: Report
    facts: Facts
    installed: tuple[tuple[str, str], ...] = ()
    opened: tuple[str, ...] = ()
    problems: tuple[Text, ...] = ()

    @property
    def rolled_back(self) -> bool:
        """Whether everything is as it was."""
        return bool(self.problems)


class _StoppedError(Exception):
    """A signal asked the process to end."""


@dataclass
class _Work:
    """What a running treatment holds."""

    plan: Plan
    target: Target
    entry: Entry
    installer: Installer
    options: Options
    progress: Progress
    steps: tuple[Step, ...] = ()
    fetched: dict[str, Fetched] = field(default_factory=dict)


def apply(
    plan: Plan, target: Target, before: Report, examine: Examine, options: Options, progress: Progress
) -> Outcome:
    """Apply `plan`, verify it, and roll it back when it made nothing better.

    Raises:
        TreatmentError: nothing was changed, or everything is as it was; or, said so, an undo is needed.
    """
    if reason := refusal(target):
        raise TreatmentError(reason)
    with journal.lock(target.prefix) as lock, _signals_raise():
        refuse_interrupted(target.prefix)
        journal.sweep(target.prefix)
        with _no_write_is_ours(target.prefix):
            entry = journal.begin(target.prefix, plan, {"executable": str(target.executable)})
        try:
            work = _Work(plan, target, entry, _chosen(options, target, entry, lock), options, progress, plan.steps)
            _prepare(work)
        except BaseException as error:  # noqa: BLE001 - whatever ends it, nothing may stay behind
            said = _save_log(entry, error)
            entry.discard()
            _raise_plainly(error, said, changed=False)
        return _carry_out(work, before, examine)


def resume(entry: Entry, target: Target, examine: Examine, options: Options, progress: Progress) -> Outcome:
    """Complete a treatment that was cut off: put everything back, then take all steps again from what was fetched.

    Raises:
        TreatmentError: as `apply`.
    """
    if reason := refusal(target):
        raise TreatmentError(reason)
    with journal.lock(target.prefix) as lock, _signals_raise():
        plan = entry.plan()
        _restore(entry, created=None)
        _, before = examine()
        work = _Work(plan, target, entry, _chosen(options, target, entry, lock), options, progress)
        work.steps = _saved_steps(entry)
        return _carry_out(work, before, examine)


def undo(entry: Entry, *, force: bool = False) -> list[str]:
    """Put back what a treatment changed, and return what could not be.

    Raises:
        TreatmentError: something was changed since, or another treatment runs.
    """
    with journal.lock(entry.prefix), _signals_raise():
        if not entry.folder.exists():
            raise TreatmentError(Text("{id} was undone meanwhile", "{id} 已被撤销").format(id=entry.id), 2)
        if entry.state == "preparing":
            entry.discard()
            return []
        created: frozenset[str] | None = None
        if entry.state == "done":
            ground, after = _ground(entry), keeping.restore_marks(entry.load("after.json"))
            changed = keeping.changed_since(entry.prefix, ground, after)
            if changed and not force:
                raise TreatmentError(_changed_since(entry, changed))
            if not changed:
                created = frozenset(entry.load("created.json"))
        problems = _restore(entry, created)
        if not problems:
            entry.discard()
        return problems


def pick(prefix: Path, entry_id: str | None) -> Entry:
    """Return the entry to undo: the last one, or the named one when it is the last.

    Raises:
        TreatmentError: there is none, or a later one stands on it.
    """
    known = journal.entries(prefix)
    if not known:
        raise TreatmentError(Text("no fix to undo here", "此处没有可撤销的修复"), 2)
    wanted = known[-1] if entry_id is None else next((item for item in known if item.id == entry_id), None)
    if wanted is None:
        raise TreatmentError(
            Text("there is no fix {id} here; there are {ids}", "此处没有修复 {id}；现有：{ids}").format(
                id=entry_id, ids=", ".join(item.id for item in known)
            ),
            2,
        )
    if wanted is not known[-1]:
        raise TreatmentError(
            Text(
                "the later fix {id} stands on it; undo that first", "较晚的修复 {id} 以其为基础；请先撤销该修复"
            ).format(id=known[-1].id),
            2,
        )
    return wanted


def refuse_interrupted(prefix: Path) -> None:
    """Refuse to start while a cut-off treatment is neither completed nor undone.

    Raises:
        TreatmentError: there is one.
    """
    if entry := journal.interrupted(prefix):
        raise TreatmentError(
            Text(
                "the fix {id} was cut off; complete it with flexdoctor fix --continue, or take it back with "
                "flexdoctor undo {id}",
                "修复 {id} 曾被中断；请用 flexdoctor fix --continue 继续完成，或用 flexdoctor undo {id} 撤销",
            ).format(id=entry.id)
        )


def _chosen(options: Options, target: Target, entry: Entry, lock: Lock) -> Installer:
    return choose(options.installer, target, entry, lock, options.indexes)


def _changed_since(entry: Entry, changed: list[str]) -> Text:
    return Text(
        "{count} files were changed after the fix {id}, first {path}; undo would lose that. "
        "flexdoctor undo {id} --force restores all the same",
        "修复 {id} 之后有 {count} 个文件被改动（如 {path}），撤销会丢失这些改动；"
        "如仍要还原：flexdoctor undo {id} --force",
    ).format(count=len(changed), id=entry.id, path=changed[0])


# --- before anything is changed ------------------------------------------------------------------------------------


def _prepare(work: _Work) -> None:
    """Fetch, work out what may be touched, keep it."""
    work.steps = tuple(_pinned(work))
    for step in work.steps:
        if step.kind == "install":
            _fetch(work, step)
    work.steps = (*_dependency_steps(work), *work.steps)
    ground = _stake_out(work)
    prefix, entry = work.target.prefix, work.entry
    before = keeping.look(prefix, [prefix / site for site in ground.sites])
    before.update(_marks(prefix, ground.touched - set(before)))
    work.progress(Text("keeping what is replaced", "保留将被替换的文件"))
    keeping.keep(prefix, entry, ground.touched, before)
    entry.save("ground.json", ground.to_json())
    entry.save("before.json", keeping.dump(before))
    entry.save("steps.json", to_json(work.steps))
    entry.note("ready", steps=len(work.steps))


def _pinned(work: _Work) -> Iterator[Step]:
    """Return the steps with a pin for what is only asked for, and with what that needs before it."""
    for step in work.steps:
        if not step.requirement:
            yield step
            continue
        work.progress(Text(f"finding {step.requirement}", f"查找 {step.requirement}"))
        installed, _ = find_distributions(work.target.sites)
        held = [f"{item.name}=={item.version}" for item in installed if item.version and item.name != step.distribution]
        for name, version in work.installer.resolve([step.requirement], held):
            if name == step.distribution:
                yield dataclasses.replace(step, version=version)
            elif name not in work.plan.names:
                yield _dependency(name, version, "")


def _dependency(name: str, version: str, before: str) -> Step:
    title = Text(f"install {name}=={version}", f"安装 {name}=={version}")
    return Step("install", "dependencies", title, distribution=name, version=version, before=before)


def _fetch(work: _Work, step: Step) -> None:
    work.progress(Text(f"fetching {step.distribution} {step.version}", f"获取 {step.distribution} {step.version}"))
    got = work.installer.fetch(step.distribution, step.version, step.index)
    if got.name != step.distribution or not same_version(got.version, step.version):
        raise TreatmentError(
            Text(
                "asked for {wanted}, was given {got}; nothing was changed", "请求 {wanted}，得到 {got}；未做任何更改"
            ).format(wanted=f"{step.distribution}=={step.version}", got=f"{got.name} {got.version}")
        )
    work.fetched[got.name] = got
    work.entry.note("fetched", name=got.name, version=got.version, sha256=got.sha256, size=got.size)


def same_version(found: str, wanted: str) -> bool:
    """Tell whether a version is the wanted one; a pin without a local part takes any local build of it."""
    try:
        got, pin = Version(found), Version(wanted)
    except InvalidVersion:
        return found == wanted
    return got == pin or (pin.local is None and got.public == pin.public)


def _dependency_steps(work: _Work) -> list[Step]:
    """Return the steps that install what the planned packages ask for and the environment lacks."""
    installed, _ = find_distributions(work.target.sites)
    versions = {item.name: item.version for item in installed}
    missing, moving = [], []
    for got in work.fetched.values():
        for requirement in _asked_for(got, work):
            have = versions.get(canonicalize_name(requirement.name))
            if have is None:
                missing.append(requirement)
            elif not _satisfies(have, requirement) and got.name != "triton-ascend":
                moving.append((requirement, got))
    if moving and not work.options.with_dependencies:
        requirement, got = moving[0]
        raise TreatmentError(
            Text(
                "{owner} needs {requirement}, here is {have}; the plan does not move it and nothing was changed. "
                "flexdoctor fix --with-dependencies lets it move",
                "{owner} 需要 {requirement}，当前为 {have}；计划不会改动它，未做任何更改。"
                "如允许改动：flexdoctor fix --with-dependencies",
            ).format(
                owner=f"{got.name} {got.version}",
                requirement=str(requirement).partition(";")[0].strip(),
                have=versions[canonicalize_name(requirement.name)],
            )
        )
    free = {canonicalize_name(requirement.name) for requirement, _ in moving}
    wanted = list(
        dict.fromkeys(str(item).partition(";")[0].strip() for item in (*missing, *(item for item, _ in moving)))
    )
    if not wanted:
        return []
    held = [f"{name}=={version}" for name, version in versions.items() if version and name not in free]
    work.progress(Text("finding dependencies", "解析依赖"))
    steps = []
    for name, version in work.installer.resolve(wanted, [line for line in held if not _is_planned(line, work.plan)]):
        if name in _NEVER_FOLLOWED or name in work.plan.names:
            continue
        step = _dependency(name, version, versions.get(name, ""))
        _fetch(work, step)
        steps.append(step)
    return steps


def _is_planned(line: str, plan: Plan) -> bool:
    return line.partition("==")[0] in plan.names


def _asked_for(got: Fetched, work: _Work) -> Iterator[Requirement]:
    for line in got.requires:
        try:
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name in (*_NEVER_FOLLOWED, *_TEST_TOOLS) or name in work.fetched:
                continue
            if requirement.marker is None or requirement.marker.evaluate({**work.target.markers, "extra": ""}):
                yield requirement
        except (InvalidRequirement, InvalidMarker, UndefinedEnvironmentName):
            continue


def _satisfies(version: str, requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True


def _stake_out(work: _Work) -> Ground:
    """Work out every path that the steps can touch."""
    target = work.target
    names = {step.distribution for step in work.steps if step.distribution}
    touched = set[str]()
    for item in find_distributions(target.sites)[0]:
        if item.name in names:
            _stake_installed(item, target, touched)
    for got in work.fetched.values():
        _stake_fetched(got, target, touched)
    sites = tuple(target.below(site) for site in target.sites)
    own = {folder for path in touched if (folder := _package_folder(path, sites))}
    for step in work.steps:
        if step.kind in ("remove", "patch"):
            touched |= _stake_path(Path(step.path).expanduser(), target)
    touched |= {cached for path in touched if path.endswith(".py") for cached in _compiled(path, target)}
    touched |= {folder for path in touched for folder in _above(path)}
    stems = tuple(sorted(re.sub(r"[-_.]+", "_", name).lower() for name in names))
    return Ground(frozenset(touched), tuple(sorted(own)), sites, stems)


def _package_folder(path: str, sites: Iterable[str]) -> str | None:
    """Return the top-level folder of packages that `path` lies in, if any."""
    for site in sites:
        top, slash, _ = path.removeprefix(f"{site}/").partition("/")
        if path.startswith(f"{site}/") and slash and top != "__pycache__":
            return f"{site}/{top}"
    return None


def _stake_fetched(got: Fetched, target: Target, touched: set[str]) -> None:
    for site in target.sites:
        touched |= {target.below(site / name) for name in got.files if _is_below(name)}
    touched |= {target.below(target.scripts / name) for name in got.scripts if _is_below(name)}
    touched |= {target.below(target.data / name) for name in got.data if _is_below(name)}


def _is_below(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def _stake_installed(item: InstalledDistribution, target: Target, touched: set[str]) -> None:
    if item.record != "present" or not item.folder.name.endswith(".dist-info"):
        raise TreatmentError(
            Text(
                "{name} was not installed by pip (no RECORD in {folder}), so pip cannot replace it; "
                "remove it with the tool that installed it",
                "{name} 不是由 pip 安装的（{folder} 中没有 RECORD），pip 无法替换它；请用安装它的工具卸载",
            ).format(name=f"{item.name} {item.version}", folder=item.metadata_path)
        )
    for row in item.all_rows:
        touched.add(target.below(Path(os.path.normpath(item.site / row.name))))
    for path in item.folder.rglob("*"):
        if not path.is_dir():
            touched.add(target.below(path))


def _stake_path(path: Path, target: Target) -> set[str]:
    below = {target.below(path)}
    if path.is_dir() and not path.is_symlink():
        below |= {target.below(item) for item in path.rglob("*")}
    return below


def _compiled(path: str, target: Target) -> Iterator[str]:
    """Yield the compiled files of a source: those that are there, and the one that its Python will write."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".py")
    for cached in (target.prefix / folder / "__pycache__").glob(f"{stem}.*.pyc"):
        yield f"{folder}/__pycache__/{cached.name}"
    tag = f"{target.markers['implementation_name']}-{target.markers['python_version'].replace('.', '')}"
    yield f"{folder}/__pycache__/{stem}.{tag}.pyc"


def _marks(prefix: Path, paths: Iterable[str]) -> dict[str, Mark]:
    return {path: found for path in paths if (found := keeping.mark(prefix / path))}


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


# --- the steps -----------------------------------------------------------------------------------------------------


def _saved_steps(entry: Entry) -> tuple[Step, ...]:
    return tuple(from_json(Step, item, f"{entry.id}/steps.json") for item in entry.load("steps.json"))


def _carry_out(work: _Work, before: Report, examine: Examine) -> Outcome:
    entry = work.entry
    problems: list[Text] = []
    try:
        foreign = _versions(work)
        for number, step in enumerate(work.steps):
            entry.note("step", number=number, title=step.title.en)
            work.progress(step.title)
            _take(work, step)
            entry.note("step done", number=number)
        work.progress(Text("verifying", "验证"))
        facts, after = examine()
        problems = [*verify(work.plan, work.steps, before, after, facts), *_moved(foreign, _versions(work))]
        if not problems:
            _finish(work)
    except BaseException as error:  # noqa: BLE001 - whatever ends it, everything is put back
        said = _save_log(entry, error)
        _roll_back(work)
        _raise_plainly(error, said, changed=True)
    if problems:
        _roll_back(work)
        facts, _ = examine()
    pins = tuple((step.distribution, step.version) for step in work.steps if step.kind == "install")
    return Outcome(entry.id, before, after, facts, pins, work.plan.opens, tuple(problems))


def _take(work: _Work, step: Step) -> None:
    if step.kind == "install":
        work.installer.install(step.distribution, step.version, step.index)
    elif step.kind == "uninstall":
        work.installer.uninstall(step.distribution)
    elif step.kind == "remove":
        _remove(Path(step.path).expanduser())
    elif step.kind == "patch" and step.patch:
        apply_patch(Path(step.path).expanduser(), step.patch)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _versions(work: _Work) -> dict[str, str]:
    """Return what is installed outside of the plan."""
    ours = {step.distribution for step in work.steps}
    installed, _ = find_distributions(work.target.sites)
    return {item.name: item.version for item in installed if item.name not in ours}


def _moved(before: dict[str, str], after: dict[str, str]) -> list[Text]:
    problems = []
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            problems.append(
                Text(
                    "{name}, which is not in the plan, went from {old} to {new}",
                    "计划之外的 {name} 从 {old} 变为 {new}",
                ).format(name=name, old=before.get(name, "-"), new=after.get(name, "-"))
            )
    return problems


def verify(plan: Plan, steps: Iterable[Step], before: Report, after: Report, facts: Facts) -> list[Text]:
    """Return why the environment is not better than before: nothing when it is."""
    problems = []
    for step in steps:
        found = facts.packages.find(step.distribution) if step.distribution else None
        if step.kind == "install" and (found is None or not same_version(found.version, step.version)):
            problems.append(
                Text("{name} is {found} instead of {wanted}", "{name} 是 {found}，而不是 {wanted}").format(
                    name=step.distribution,
                    found=found.version if found else Text("absent", "未安装"),
                    wanted=step.version,
                )
            )
        if step.kind == "uninstall" and found is not None:
            problems.append(Text("{name} is still there", "{name} 仍在").format(name=step.distribution))
    faults = {item.code: item for item in after.findings if item.status in ("fail", "warn") and item.code}
    for code in plan.opens:
        if code in faults:
            problems.append(
                Text("{code} is still there: {title}", "{code} 仍然存在：{title}").format(
                    code=code, title=faults[code].title
                )
            )
    hidden = {item.link for item in before.findings if item.status in ("blocked", "unknown", "crashed")}
    known = {item.code for item in before.findings}
    for code, item in faults.items():
        is_new = code not in (*known, *plan.remaining) and item.link not in hidden
        if item.status == "fail" and item.waiver is None and is_new:
            problems.append(
                Text("{code} is new: {title}", "新出现 {code}：{title}").format(code=code, title=item.title)
            )
    for capability in CAPABILITIES:
        answers = [answer_of_packages(report, capability).available for report in (before, after)]
        if answers == ["yes", "no"]:
            problems.append(
                Text("{capability} worked before and would not now", "{capability} 原本可用，现在不可用").format(
                    capability=capability
                )
            )
    return problems


def _finish(work: _Work) -> None:
    entry, prefix = work.entry, work.target.prefix
    ground, before = _ground(entry), keeping.restore_marks(entry.load("before.json"))
    after = keeping.look(prefix, [prefix / site for site in ground.sites])
    after.update(_marks(prefix, ground.touched - set(after)))
    created = sorted(path for path in after if path not in before and ground.owns(path))
    entry.save("after.json", keeping.dump({path: item for path, item in after.items() if ground.owns(path)}))
    entry.save("created.json", created)
    entry.note("done")
    keeping.drop_unchanged(prefix, entry, ground)
    for folder in (entry.wheels, entry.temporary):
        shutil.rmtree(folder, ignore_errors=True)


# --- the way back --------------------------------------------------------------------------------------------------


def _ground(entry: Entry) -> Ground:
    data = entry.load("ground.json")
    try:
        return Ground.from_json(data)
    except (LookupError, TypeError) as error:
        raise TreatmentError(Text(f"{entry.id} is damaged: {error}", f"{entry.id} 已损坏：{error}")) from error


def _restore(entry: Entry, created: frozenset[str] | None) -> list[str]:
    with contextlib.suppress(OSError):  # a full disk must not stop the way back, which frees it
        entry.note("restoring")
    before = keeping.restore_marks(entry.load("before.json"))
    return keeping.put_back(entry.prefix, entry, _ground(entry), before, created)


def _roll_back(work: _Work) -> None:
    work.progress(Text("rolling back", "回滚"))
    problems = _restore(work.entry, created=None)
    if problems:
        raise TreatmentError(
            Text(
                "{count} paths could not be put back, first {path}; mend that, then run flexdoctor undo {id}",
                "{count} 个路径未能还原，例如 {path}；请排除原因后运行 flexdoctor undo {id}",
            ).format(count=len(problems), path=problems[0], id=work.entry.id),
            4,
        )
    work.entry.discard()


def _save_log(entry: Entry, error: BaseException) -> Text:
    """Leave the output of a failed installer outside of the entry, which goes, and say where."""
    if not isinstance(error, InstallerError):
        return NOTHING
    try:
        with tempfile.NamedTemporaryFile("wb", prefix="flexdoctor-", suffix=".log", delete=False) as copy:
            copy.write(entry.installer_log.read_bytes())
    except OSError:
        return NOTHING
    return Text("Its output: {path}", "其输出：{path}").format(path=copy.name)


def _raise_plainly(error: BaseException, said: Text, *, changed: bool) -> NoReturn:
    """Raise `error` as what a person can read, with what has become of the environment."""
    state = (
        Text("Everything was put back.", "已全部还原。") if changed else Text("Nothing was changed.", "未做任何更改。")
    )
    code = 4 if changed else 3
    if isinstance(error, _StoppedError):
        raise TreatmentError(Text("stopped by a signal.", "被信号终止。") + state, code) from error
    if isinstance(error, KeyboardInterrupt):
        raise TreatmentError(Text("interrupted.", "已中断。") + state, 130) from error
    if isinstance(error, TreatmentError):
        # Before anything is changed, an error that is not the installer's says so itself where it matters.
        told = changed or isinstance(error, InstallerError)
        raise TreatmentError(error.message + state + said, code) if told else error
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        where = f" ({error.filename})" if error.filename else ""
        raise TreatmentError(Text(f"{why}{where}.", f"{why}{where}。") + state, code) from error
    raise error


@contextlib.contextmanager
def _no_write_is_ours(prefix: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreatmentError(
            Text("cannot write in {prefix}: {error}", "无法写入 {prefix}：{error}").format(
                prefix=prefix, error=error.strerror or error
            )
        ) from error


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn the polite ways to end a process into a rollback; the impolite one is what the journal is for."""

    def stop(number: int, _frame: object) -> None:
        raise _StoppedError(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
