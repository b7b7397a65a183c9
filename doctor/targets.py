"""Which environment to examine: the target options of the command line, settled into facts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flexdoctor.facts import Facts
from flexdoctor.frozen import dataclass
from flexdoctor.text import Text, UserError, unreadable

if TYPE_CHECKING:
    from flexdoctor.readers.environment import HubOptions


class UsageError(UserError):
    """Options that do not go together or have no meaning."""


class TargetError(UserError):
    """The target cannot be examined."""


@dataclass(frozen=True)
class TargetOptions:
    """The target options of DESIGN: at most one of the first six is given."""

    python: Path | None = None
    site_packages: Path | None = None
    requirements: Path | None = None
    wheels: Path | None = None
    snapshot: Path | None = None
    example: str | None = None
    root: Path | None = None
    env: tuple[str, ...] = ()
    env_file: Path | None = None
    platform: str | None = None
    python_version: str | None = None
    deep: bool = False
    npu_smi_limit: float | None = None
    kernels: tuple[str, ...] = ()
    online: bool = False


ARCHITECTURES = ("aarch64", "x86_64")


def read_target(options: TargetOptions) -> Facts:
    """Return the facts of the target that `options` name.

    Raises:
        UsageError: the options contradict each other.
        TargetError: the target cannot be examined.
    """
    targets = {
        "--python": options.python,
        "--site-packages": options.site_packages,
        "-r": options.requirements,
        "--wheels": options.wheels,
        "--snapshot": options.snapshot,
        "--example": options.example,
    }
    named = [name for name, value in targets.items() if value is not None]
    _refuse_contradictions(options, named)
    if options.requirements or options.wheels:
        return _read_planned(options)
    if options.snapshot or options.example:
        from flexdoctor import snapshots  # noqa: PLC0415 - each kind of target loads only its own readers

        try:
            return (
                snapshots.load(options.snapshot) if options.snapshot else snapshots.load_example(options.example or "")
            )
        except snapshots.SnapshotError as error:
            raise TargetError(error.message) from error
    return _read_present(options)


def _refuse_contradictions(options: TargetOptions, named: list[str]) -> None:
    if len(named) > 1:
        raise UsageError(
            Text("{names} are {count} targets; name one", "{names} 是 {count} 个检查对象，只能指定一个").format(
                names=" + ".join(named), count=len(named)
            )
        )
    if options.root and not options.site_packages:
        raise UsageError(Text("--root goes with --site-packages DIR", "--root 须与 --site-packages DIR 同用"))
    if (options.env or options.env_file) and not options.root:
        raise UsageError(
            Text(
                "--env and --env-file go with --root; the live machine has variables of its own",
                "--env 与 --env-file 须与 --root 同用；本机检查直接读取本机的环境变量",
            )
        )
    if options.deep and not (options.site_packages or options.python or not named):
        raise UsageError(
            Text(
                "--deep reads installed libraries; it goes with --python or --site-packages",
                "--deep 读取已安装的动态库，须与 --python 或 --site-packages 同用",
            )
        )
    if (options.platform or options.python_version) and not (options.requirements or options.wheels):
        raise UsageError(
            Text(
                "--platform and --python-version go with -r or --wheels",
                "--platform 与 --python-version 须与 -r 或 --wheels 同用",
            )
        )
    if options.online and not options.kernels:
        raise UsageError(
            Text(
                "--online goes with --kernel REPO: it asks the Hub about that one",
                "--online 须与 --kernel REPO 同用：它只向 Hub 查询该仓库",
            )
        )
    if options.kernels and not (options.site_packages or options.python or not named):
        raise UsageError(
            Text(
                "--kernel is held against installed packages; it goes with --python or --site-packages",
                "--kernel 要与已安装的软件包比对，须与 --python 或 --site-packages 同用",
            )
        )


def _read_present(options: TargetOptions) -> Facts:
    from flexdoctor.readers import environment, interpreter, npu_smi  # noqa: PLC0415

    if options.root and not options.root.is_dir():
        raise TargetError(Text("--root: {path} is not a folder", "--root：{path} 不是目录").format(path=options.root))
    if options.deep:
        _require_elf_reader()
    how = environment.ReadOptions(
        deep=options.deep,
        npu_smi_limit=npu_smi.TIME_LIMIT if options.npu_smi_limit is None else options.npu_smi_limit,
        variables=_variables(options) if options.root else None,
        hub=_hub_options(options),
    )
    try:
        if options.site_packages:
            return environment.read_site_packages(options.site_packages, options.root, how)
        return environment.read_installed(options.python, how)
    except interpreter.TargetError as error:
        raise TargetError(error.message) from error


def _hub_options(options: TargetOptions) -> HubOptions:
    from flexdoctor.readers import environment  # noqa: PLC0415

    if not options.kernels:
        return environment.HubOptions()
    from flexdoctor.readers import hub  # noqa: PLC0415

    try:
        return environment.HubOptions(tuple(hub.parse_kernel(item) for item in options.kernels), options.online)
    except hub.KernelSpecError as error:
        raise UsageError(Text("--kernel: {why}", "--kernel：{why}").format(why=error)) from error


def _require_elf_reader() -> None:
    from flexdoctor.readers import elf  # noqa: PLC0415

    try:
        elf.require_reader()
    except elf.ReaderMissingError as error:
        raise UsageError(
            Text(
                "--deep reads ELF files with pyelftools: pip install 'flexdoctor[deep]'",
                "--deep 需要 pyelftools 读取 ELF 文件：pip install 'flexdoctor[deep]'",
            )
        ) from error


def _variables(options: TargetOptions) -> dict[str, str]:
    """Return the variables of an image. `--env` goes before the file, which may be what `env` printed there."""
    found = {}
    if options.env_file:
        try:
            text = options.env_file.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise UsageError(unreadable(f"--env-file {options.env_file}", error)) from error
        # Comments, shell functions and the further lines of a long value are no variables of ours.
        for line in text.splitlines():
            key, separator, value = line.strip().removeprefix("export ").partition("=")
            if separator and key.isidentifier():
                quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
                found[key] = value[1:-1] if quoted else value
        if not found:
            message = Text("--env-file: {path} has no line KEY=VALUE", "--env-file：{path} 中没有 KEY=VALUE 形式的行")
            raise UsageError(message.format(path=options.env_file))
    for item in options.env:
        key, separator, value = item.partition("=")
        if not separator or not key.isidentifier():
            raise UsageError(
                Text("--env: expected KEY=VALUE", "--env：应为 KEY=VALUE")
            )  # what was given may be a secret
        found[key] = value
    return found


def _read_planned(options: TargetOptions) -> Facts:
    from flexdoctor.readers import locks, planned  # noqa: PLC0415

    assumed = locks.Platform()
    platform = locks.Platform(
        _architecture(options, assumed.architecture), _python(options, assumed.python), is_stated=bool(options.platform)
    )
    try:
        if options.wheels:
            _refuse_empty(options.wheels)
            return planned.read_wheelhouse(options.wheels, platform)
        path = options.requirements if str(options.requirements) != "-" else None
        text = None if path else sys.stdin.buffer.read(locks.MAX_BYTES + 1)
        return planned.read_requirements(locks.read_plan(path, text, platform), path, platform)
    except locks.LockError as error:
        raise TargetError(error.message) from error
    except OSError as error:
        raise TargetError(unreadable(options.wheels or options.requirements, error)) from error


def _refuse_empty(folder: Path) -> None:
    if folder.is_dir() and not any(item.suffix == ".whl" for item in folder.iterdir()):
        message = Text(
            "{folder} holds no wheel (*.whl); for installed packages type --site-packages {folder}",
            "{folder} 中没有 wheel 文件（*.whl）；若是已安装的软件包，请用 --site-packages {folder}",
        )
        raise TargetError(message.format(folder=folder))


def _architecture(options: TargetOptions, assumed: str) -> str:
    if options.platform is None:
        return assumed
    name = options.platform.removeprefix("linux").lstrip("_-/")
    name = {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)
    if name not in ARCHITECTURES:
        message = Text(
            "--platform {name}: expected linux_aarch64 or linux_x86_64",
            "--platform {name}：应为 linux_aarch64 或 linux_x86_64",
        )
        raise UsageError(message.format(name=options.platform))
    return name


def _python(options: TargetOptions, assumed: str) -> str:
    version = options.python_version or assumed
    if not re.fullmatch(r"3\.\d{1,2}(\.\d+)?", version):
        message = Text(
            "--python-version {version}: expected a version like {like}",
            "--python-version {version}：应为 {like} 这样的版本号",
        )
        raise UsageError(message.format(version=version, like=assumed))
    return version
