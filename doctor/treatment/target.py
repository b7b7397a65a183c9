"""The interpreter that is treated: where it puts packages, and whether it may be touched at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from flexdoctor.facts import Facts
from flexdoctor.frozen import dataclass
from flexdoctor.text import Text
from flexdoctor.treatment.plan import TreatmentError

_TIME_LIMIT = 60.0
_MARK = "flexdoctor-target:"
#: Isolated, and without writing compiled files: asking must leave no trace.
ISOLATED = ("-I", "-B")
_QUESTION = (
    "import importlib.util,json,os,platform,sys,sysconfig\n"
    "p=sysconfig.get_paths()\n"
    "v='.'.join(platform.python_version_tuple()[:2])\n"
    "i=sys.implementation\n"
    f"print('\\n{_MARK}'+json.dumps({{"
    "'prefix':sys.prefix,'paths':{k:p[k] for k in ('purelib','platlib','scripts','data')},"
    "'marker':os.path.join(p['stdlib'],'EXTERNALLY-MANAGED') if sys.prefix==sys.base_prefix else '',"
    "'pip':importlib.util.find_spec('pip') is not None,"
    "'environment':{'os_name':os.name,'sys_platform':sys.platform,'platform_machine':platform.machine(),"
    "'platform_python_implementation':platform.python_implementation(),'platform_release':platform.release(),"
    "'platform_system':platform.system(),'platform_version':platform.version(),'python_version':v,"
    "'python_full_version':platform.python_version(),'implementation_name':i.name,"
    "'implementation_version':platform.python_version()}}))"
)


@dataclass(frozen=True)
class Target:
    """The interpreter, as it describes itself."""

    executable: Path
    prefix: Path
    purelib: Path
    platlib: Path
    scripts: Path
    data: Path
    has_pip: bool
    #: PEP 668: the file that says that another program manages this interpreter's packages.
    externally_managed: Path | None
    #: What the markers of requirements are evaluated against.
    markers: dict[str, str]

    @property
    def sites(self) -> tuple[Path, ...]:
        """The folders in which packages are installed."""
        return tuple(dict.fromkeys((self.purelib, self.platlib)))

    def below(self, path: Path) -> str:
        """Return `path` relative to the prefix.

        Raises:
            TreatmentError: it lies elsewhere.
        """
        real = os.path.realpath(path.parent) + os.sep + path.name
        found = os.path.relpath(real, self.prefix)
        if found.startswith(".."):
            raise TreatmentError(
                Text(
                    "{path} lies outside of {prefix}, so it could not be put back",
                    "{path} 不在 {prefix} 之内，无法保证能够还原",
                ).format(path=path, prefix=self.prefix)
            )
        return found


def prefix_of(facts: Facts) -> Path | None:
    """Return the folder of the environment that was examined."""
    prefix = facts.interpreter.prefix
    return Path(os.path.realpath(Path(prefix).expanduser())) if prefix else None


def survey(facts: Facts) -> Target:
    """Ask the examined interpreter where it installs.

    Raises:
        TreatmentError: it does not answer.
    """
    import json  # noqa: PLC0415 - a check plans, and asks nobody

    executable = facts.interpreter.executable
    if executable is None:
        raise TreatmentError(
            Text("this target has no interpreter to install with", "该检查对象没有可用于安装的解释器"), 2
        )
    command = [str(Path(executable).expanduser()), *ISOLATED, "-c", _QUESTION]
    try:
        done = subprocess.run(  # noqa: S603 - the user named this interpreter
            command, capture_output=True, timeout=_TIME_LIMIT, check=False, stdin=subprocess.DEVNULL, cwd="/"
        )
        answer = json.loads(done.stdout.decode("utf-8", errors="replace").rpartition(_MARK)[2].strip())
        paths = {name: Path(os.path.realpath(path)) for name, path in answer["paths"].items()}
        managed = Path(answer["marker"]) if answer["marker"] else None
        return Target(
            executable=Path(command[0]),
            prefix=Path(os.path.realpath(answer["prefix"])),
            has_pip=bool(answer["pip"]),
            externally_managed=managed if managed and managed.exists() else None,
            markers={str(key): str(value) for key, value in answer["environment"].items()},
            **paths,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError) as error:
        raise TreatmentError(
            Text("{python} cannot be asked where it installs: {error}", "无法得知 {python} 的安装位置：{error}").format(
                python=executable, error=error
            )
        ) from error


def refusal(target: Target) -> Text | None:
    """Return why this environment must not be changed, with the way out; None when it may."""
    if target.externally_managed:
        return Text(
            "another program manages this Python ({file}), so nothing is installed into it; make an environment of "
            "your own: {python} -m venv ~/npu, then flexdoctor fix --python ~/npu",
            "此 Python 由其他程序管理（{file}），不会向其中安装；请先建立自己的环境：{python} -m venv ~/npu，"
            "然后 flexdoctor fix --python ~/npu",
        ).format(file=target.externally_managed, python=target.executable)
    for folder in (target.prefix, *target.sites, target.scripts):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            return Text(
                "{folder} cannot be written by you; run as its owner, or make an environment of your own: "
                "{python} -m venv --system-site-packages ~/npu",
                "当前用户无权写入 {folder}；请以其所有者身份运行，或建立自己的环境："
                "{python} -m venv --system-site-packages ~/npu",
            ).format(folder=folder, python=target.executable)
    for site in target.sites:
        if not site.is_relative_to(target.prefix):
            return Text(
                "packages of this Python are installed outside of its prefix ({site}), where nothing could be put back",
                "此 Python 的软件包安装在其前缀之外（{site}），无法保证能够还原",
            ).format(site=site)
    return None


def site_of(facts: Facts, module: str, *, folded: bool = False) -> Path:
    """Return the folder of packages in which a module of the chain lies."""
    folder = next((item for item in facts.packages.folders if item.name == module), None)
    site = Path(folder.path).parent if folder else Path(next(iter(facts.target.site_packages), "."))
    return site if folded else site.expanduser()
