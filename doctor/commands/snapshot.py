"""`flexdoctor snapshot`: record the facts of an environment."""

from __future__ import annotations

import typer

from flexdoctor.commands import options
from flexdoctor.commands.running import write
from flexdoctor.commands.settings import settle


def snapshot(
    context: typer.Context,
    python: options.PythonOption = None,
    site_packages: options.SitePackagesOption = None,
    requirements: options.RequirementsOption = None,
    wheels: options.WheelsOption = None,
    root: options.RootOption = None,
    env: options.EnvOption = None,
    env_file: options.EnvFileOption = None,
    platform: options.PlatformOption = None,
    python_version: options.PythonVersionOption = None,
    deep: options.DeepOption = False,
    npu_smi_limit: options.NpuSmiLimitOption = 10,
    config: options.ConfigOption = None,
    no_config: options.NoConfigOption = False,
    output: options.OutputOption = None,
) -> None:
    """Record the facts of an environment, for `check --snapshot` on another machine.

    Holds versions, paths below the home folder as ~, and allowed variables; no host name, no other variable.
    """
    from flexdoctor.snapshots import dump  # noqa: PLC0415

    settings = settle(context, config, no_config)
    target = settings.target(
        {
            "python": python,
            "site_packages": site_packages,
            "requirements": requirements,
            "wheels": wheels,
            "root": root,
            "env_file": env_file,
            "platform": platform,
            "python_version": python_version,
        },
        ("python", "site_packages", "requirements", "wheels"),
    )
    facts = settings.read(target, env=tuple(env or ()), deep=deep, npu_smi_limit=npu_smi_limit)
    write(dump(facts), output)
