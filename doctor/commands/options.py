"""The options that several commands take, each written once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from flexdoctor.commands import completion
from flexdoctor.commands.help import DEPTH, OUTPUT, TARGET


class PlanFormat(str, Enum):
    """How a plan is written."""

    text = "text"
    json = "json"


class ExplainFormat(str, Enum):
    """How pages of faults are written."""

    text = "text"
    json = "json"
    markdown = "markdown"


class Capability(str, Enum):
    """Ways to run flex_attention."""

    eager = "eager"
    compiled_forward = "compiled_forward"
    compiled_backward = "compiled_backward"
    compiled_captured = "compiled_captured"


class FailOn(str, Enum):
    """From which severity on findings count."""

    error = "error"
    warning = "warning"


class Lang(str, Enum):
    """Languages of the text."""

    en = "en"
    zh = "zh"


class Color(str, Enum):
    """When to use colour."""

    auto = "auto"
    always = "always"
    never = "never"


class Device(str, Enum):
    """Where the live run runs."""

    auto = "auto"
    npu = "npu"
    cpu = "cpu"
    cuda = "cuda"


class Listing(str, Enum):
    """What can be listed."""

    checks = "checks"
    stacks = "stacks"
    fixes = "fixes"


class InstallWith(str, Enum):
    """Which installer applies a plan."""

    auto = "auto"
    pip = "pip"
    uv = "uv"


PythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="An interpreter, venv or conda prefix. Default: $VIRTUAL_ENV, $CONDA_PREFIX, else this one.",
    ),
]
SitePackagesOption = Annotated[
    Path | None,
    typer.Option(
        "--site-packages",
        metavar="DIR",
        help="A bare folder of packages; nothing is run, no machine is examined.",
        rich_help_panel=TARGET,
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="With --site-packages: look up CANN, /dev and /etc below DIR.",
        rich_help_panel=TARGET,
    ),
]
RequirementsOption = Annotated[
    Path | None,
    typer.Option(
        "-r",
        metavar="FILE",
        help="Judge requirements, a freeze or a lock (- for stdin). Also pip list, pylock.toml, uv.lock.",
    ),
]
WheelsOption = Annotated[
    Path | None,
    typer.Option("--wheels", metavar="DIR", help="A folder of wheels, read without unpacking.", rich_help_panel=TARGET),
]
PlatformOption = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="NAME",
        help="For -r and --wheels: linux_aarch64 (assumed) or linux_x86_64.",
        rich_help_panel=TARGET,
    ),
]
PythonVersionOption = Annotated[
    str | None,
    typer.Option(
        "--python-version",
        metavar="X.Y",
        help="For -r and --wheels: the Python. Assumed: 3.11.",
        rich_help_panel=TARGET,
    ),
]
SnapshotOption = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="Facts recorded by `flexdoctor snapshot`.", rich_help_panel=TARGET),
]
ExampleOption = Annotated[
    str | None,
    typer.Option(
        "--example",
        autocompletion=completion.examples,
        metavar="NAME",
        help="A shipped snapshot; a wrong name lists them all.",
        rich_help_panel=TARGET,
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env", metavar="KEY=VALUE", help="With --root: a variable of the image. Repeatable.", rich_help_panel=TARGET
    ),
]
EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        "--env-file", metavar="FILE", help="With --root: its variables, one KEY=VALUE a line.", rich_help_panel=TARGET
    ),
]
DeepOption = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Also compare the symbols that torch-npu needs with what torch and CANN export (flexdoctor[deep]).",
        rich_help_panel=DEPTH,
    ),
]
KernelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        metavar="REPO[@VERSION]|PATH",
        help="A kernel from the Hub, a folder, or REPO=PATH: does it fit diffusers and transformers here?",
        rich_help_panel=DEPTH,
    ),
]
OnlineOption = Annotated[
    bool,
    typer.Option("--online", help="Ask the Hub itself about the kernels named by --kernel.", rich_help_panel=DEPTH),
]
NpuSmiLimitOption = Annotated[
    float,
    typer.Option(
        "--npu-smi-limit",
        metavar="SECONDS",
        min=0,
        envvar="FLEXDOCTOR_NPU_SMI_LIMIT",
        help="How long `npu-smi info` may take where devices are; 0 leaves it out.",
        rich_help_panel=DEPTH,
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
]
CollectOption = Annotated[
    Path | None,
    typer.Option(
        "--collect",
        metavar="DIR",
        envvar="FLEXDOCTOR_COLLECT",
        help="Under a launcher: write this node's report to DIR, for `flexdoctor compare DIR`. One a node; with "
        "--collect-ranks one for every rank.",
        rich_help_panel=DEPTH,
    ),
]
CollectRanksOption = Annotated[
    bool,
    typer.Option(
        # Told by --collect: the short help has a screen of 24 lines.
        "--collect-ranks",
        hidden=True,
    ),
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="FORMAT=FILE",
        help="Write a further format in the same run. Repeatable.",
        rich_help_panel=OUTPUT,
    ),
]
LangOption = Annotated[
    Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="English or Chinese. Default: by locale.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="FLEXDOCTOR_CONFIG",
        help="Settings. Default: the nearest flexdoctor.toml, or pyproject.toml with [tool.flexdoctor].",
        rich_help_panel=TARGET,
    ),
]
NoConfigOption = Annotated[
    bool, typer.Option("--no-config", help="Read no settings from any file.", rich_help_panel=TARGET)
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="NAME",
        help="Also run this check of another distribution. Repeatable.",
        rich_help_panel=DEPTH,
    ),
]
#: The same two where all options stand in one list.
ListedConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="FLEXDOCTOR_CONFIG",
        help="Settings. Default: the nearest flexdoctor.toml, or pyproject.toml with [tool.flexdoctor].",
    ),
]
ListedNoConfigOption = Annotated[bool, typer.Option("--no-config", help="Read no settings from any file.")]
