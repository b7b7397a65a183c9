"""Which interpreter an environment has, and where its packages lie.

Everything comes from pyvenv.cfg, conda-meta and the folder layout where those suffice; otherwise one isolated child
of the target's interpreter is asked, with a time limit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from flexdoctor.facts import InterpreterFacts, Unread
from flexdoctor.frozen import dataclass
from flexdoctor.readers.trees import fold_home
from flexdoctor.text import Text, UserError, unreadable

CHILD_TIME_LIMIT = 20.0
#: e_machine of the ELF header, little endian, as the kernel's names.
_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv64", 0x102: "loongarch64"}
_MARK = "flexdoctor-interpreter:"
_QUESTION = (
    "import json,platform,site,sys,sysconfig;p=sysconfig.get_paths();"
    f"print('\\n{_MARK}'+json.dumps({{'version':platform.python_version(),"
    "'implementation':sys.implementation.name,'machine':platform.machine(),'prefix':sys.prefix,"
    "'sites':[p['purelib'],p['platlib']]+(site.getsitepackages() if hasattr(site,'getsitepackages') else [])"
    "+([site.getusersitepackages()] if site.ENABLE_USER_SITE or site.check_enableusersite() else [])}))"
)


class TargetError(UserError):
    """The target cannot be examined."""


@dataclass(frozen=True)
class Environment:
    """An interpreter and the folders in which it looks for packages, in order."""

    facts: InterpreterFacts
    search_path: tuple[Path, ...]


def default_target() -> tuple[Path, str]:
    """Return the environment to examine when none is named, and how it was chosen."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if value := os.environ.get(variable):
            return Path(value), f"${variable}"
    return Path(sys.executable), "the interpreter that runs flexdoctor"


def read_environment(path: Path, time_limit: float = CHILD_TIME_LIMIT) -> Environment:
    """Return the interpreter at `path`: an executable, or the folder of a venv or conda environment.

    Raises:
        TargetError: there is nothing at `path`, or it has no interpreter, or the interpreter cannot be asked.
    """
    try:
        if not path.exists():
            raise TargetError(
                Text(
                    "{path} does not exist; expected an interpreter, or the folder of a venv or conda environment",
                    "{path} 不存在；应为 Python 解释器，或 venv、conda 环境的目录",
                ).format(path=path)
            )
        prefix = path if path.is_dir() else _prefix_of(path)
    except OSError as error:
        raise TargetError(unreadable(path, error)) from error
    if prefix is None:
        if _is_own_interpreter(path):
            return _own_environment()
        return _ask(path, time_limit)
    return _from_layout(prefix, time_limit)


def _prefix_of(executable: Path) -> Path | None:
    """Return the venv or conda prefix of an interpreter without following the link to its base."""
    prefix = Path(os.path.abspath(executable)).parent.parent  # noqa: PTH100 - resolve() would leave the venv
    return prefix if (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir() else None


def _is_own_interpreter(path: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(sys.executable) and sys.prefix == sys.base_prefix


def _own_environment() -> Environment:
    import platform  # noqa: PLC0415 - only this way of finding an interpreter needs it
    import site  # noqa: PLC0415

    sites = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        sites.append(site.getusersitepackages())
    facts = InterpreterFacts(
        implementation=sys.implementation.name,
        version=platform.python_version(),
        architecture=platform.machine(),
        executable=fold_home(sys.executable),
        prefix=fold_home(sys.prefix),
        learned_from="this process",
    )
    return Environment(facts, _search_path(Path(item) for item in sites))


def _from_layout(prefix: Path, time_limit: float) -> Environment:
    configuration = _read_pyvenv(prefix / "pyvenv.cfg")
    executable = next(
        (prefix / "bin" / name for name in ("python", "python3") if (prefix / "bin" / name).exists()), None
    )
    libraries = sorted((prefix / "lib").glob("python3.*/site-packages"))
    is_conda = (prefix / "conda-meta").is_dir()
    if not configuration and not is_conda:
        if executable is None:
            raise TargetError(
                Text(
                    "{prefix} is neither an interpreter nor a venv or conda environment; "
                    "for a bare folder of packages type --site-packages {prefix}",
                    "{prefix} 既不是 Python 解释器，也不是 venv 或 conda 环境；若只是存放软件包的目录，"
                    "请用 --site-packages {prefix}",
                ).format(prefix=prefix)
            )
        return _ask(executable, time_limit)
    if len(libraries) != 1:
        if executable is None:
            raise TargetError(
                Text(
                    "{prefix} has no lib/python3.*/site-packages and no bin/python: the environment is not whole",
                    "{prefix} 中没有 lib/python3.*/site-packages，也没有 bin/python：该环境不完整",
                ).format(prefix=prefix)
            )
        return _ask(executable, time_limit)
    site = libraries[0]
    if configuration:
        version = configuration.get("version_info", configuration.get("version", ""))
        learned_from = prefix / "pyvenv.cfg"
    else:
        record = next(iter(sorted((prefix / "conda-meta").glob("python-3.*.json"))), None)
        found = re.match(r"python-([\d.]+)", record.name) if record else None
        version, learned_from = found[1] if found else "", record or prefix / "conda-meta"
    sites = [site, prefix / "lib64" / site.parent.name / "site-packages"]
    if configuration.get("include-system-site-packages", "").lower() == "true":
        sites += _base_sites(Path(configuration.get("home", "")), time_limit)
    match = re.match(r"\d+\.\d+(\.\d+)?", version)
    facts = InterpreterFacts(
        implementation=configuration.get("implementation", "cpython").lower(),
        version=match[0] if match else site.parent.name.removeprefix("python"),
        architecture=elf_architecture(executable) if executable else None,
        executable=fold_home(executable) if executable else None,
        prefix=fold_home(prefix),
        learned_from=fold_home(learned_from),
        unread=() if executable else (Unread(fold_home(prefix / "bin" / "python"), "missing or a dangling link"),),
    )
    return Environment(facts, _search_path(sites))


def _read_pyvenv(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _base_sites(home: Path, time_limit: float) -> list[Path]:
    base = next((home / name for name in ("python3", "python") if (home / name).exists()), None)
    if base is None:
        return []
    try:
        return list(_ask(base, time_limit).search_path)
    except TargetError:
        return []


def _search_path(sites: object) -> tuple[Path, ...]:
    """Drop folders that are absent or the same under another name, and add what their .pth files name."""
    found: dict[str, Path] = {}
    queue = list(sites)  # type: ignore[call-overload]
    while queue:
        site = queue.pop(0)
        real = os.path.realpath(site)
        if real in found or not Path(real).is_dir():
            continue
        found[real] = site
        queue += _pth_folders(site)
    return tuple(found.values())


def _pth_folders(site: Path) -> list[Path]:
    folders = []
    try:
        files = sorted(site.glob("*.pth"))
    except OSError:
        return []
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        # Lines that start with "import" are code, which is not for us to run.
        folders += [site / line.strip() for line in lines if line.strip() and not line.startswith(("#", "import"))]
    return [folder for folder in folders if folder.is_dir()]


def elf_architecture(path: Path) -> str | None:
    """Return the architecture that an executable was built for, as `uname -m` spells it."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    if header[:4] != b"\x7fELF" or len(header) < 20:
        return None
    return _MACHINES.get(int.from_bytes(header[18:20], "little"))


def _ask(executable: Path, time_limit: float) -> Environment:
    """Ask the interpreter itself, isolated from the user's environment and with bounded time."""
    command = [str(executable), "-I", "-c", _QUESTION]
    try:
        done = subprocess.run(  # noqa: S603 - the user named this interpreter
            command, capture_output=True, timeout=time_limit, check=False, stdin=subprocess.DEVNULL, cwd="/"
        )
    except subprocess.TimeoutExpired as error:
        message = Text("{executable} did not answer within {limit:g} s", "{executable} 在 {limit:g} 秒内没有响应")
        raise TargetError(message.format(executable=executable, limit=time_limit)) from error
    except OSError as error:
        message = Text("{executable} does not start: {why}", "{executable} 无法启动：{why}")
        raise TargetError(message.format(executable=executable, why=error.strerror or error)) from error
    answer = done.stdout.decode("utf-8", errors="replace").rpartition(_MARK)[2]
    import json  # noqa: PLC0415 - few interpreters have to be asked

    try:
        data = json.loads(answer.strip().splitlines()[0])
        sites = [Path(item) for item in data["sites"]]
        facts = InterpreterFacts(
            implementation=str(data["implementation"]),
            version=str(data["version"]),
            architecture=str(data["machine"]),
            executable=fold_home(executable),
            prefix=fold_home(str(data["prefix"])),
            learned_from=f"{fold_home(executable)} -I",
        )
    except (ValueError, LookupError, TypeError) as error:
        message = Text(
            "{executable} is not a Python that can be asked ({end})", "{executable} 不是可用的 Python 解释器（{end}）"
        )
        raise TargetError(message.format(executable=executable, end=_how_it_ended(done))) from error
    return Environment(facts, _search_path(sites))


def _how_it_ended(done: subprocess.CompletedProcess[bytes]) -> str:
    last = done.stderr.decode("utf-8", errors="replace").strip().splitlines()[-1:]
    ended = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return f"{ended}: {last[0]}" if last else ended
