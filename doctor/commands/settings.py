"""What a run is told: flags beat environment variables, and both beat the file of settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from flexdoctor.commands.running import StopError, codes, read
from flexdoctor.frozen import dataclass
from flexdoctor.text import NOTHING, Text

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.configuration import Configuration
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Waiver

T = TypeVar("T")
LIST_OF_CODES = Text("`flexdoctor list checks` lists all", "全部代码见 `flexdoctor list checks`")
_TARGETS = ("python", "site_packages", "requirements", "wheels", "snapshot", "example")


@dataclass(frozen=True)
class Settings:
    """The file of settings, and the command line that goes before it."""

    context: typer.Context
    file: Configuration

    def is_given(self, name: str) -> bool:
        """Tell whether an option was given on the command line or by its variable."""
        source = self.context.get_parameter_source(name)
        return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")

    def is_by_variable(self, name: str) -> bool:
        """Tell whether an option was given by its variable."""
        source = self.context.get_parameter_source(name)
        return source is not None and source.name == "ENVIRONMENT"

    def value(self, name: str, given: T, settled: T | None) -> T:
        """Return what holds: what was given, else what the file says, else the default that is in `given`."""
        return given if settled is None or self.is_given(name) else settled

    def where(self, key: str) -> str:
        """Name a key of the file, for an error."""
        return f"{self.file.path}: {key}"

    def target(self, given: dict[str, Any], allowed: Sequence[str] = _TARGETS) -> dict[str, Any]:
        """Return the target options: those of the file, where the command line names no target.

        Args:
            given: from the command line.
            allowed: the targets that this command can take; the file's is left out when it is none of them.
        """
        settled = self.file.target
        if not settled or any(given.get(name) is not None for name in _TARGETS):
            return given
        if not any(name in settled for name in allowed):
            return given
        return {**given, **{name: value for name, value in settled.items() if not given.get(name)}}

    def read(self, target: dict[str, Any], **more: Any) -> Facts:
        """Read a target; an error says when it is the file that names it.

        Raises:
            StopError: it cannot be read.
        """
        try:
            return read(**target, **more)
        except StopError as error:
            if any(target.get(name) is value for name, value in self.file.target.items()):
                where = Text("({where})", "（{where}）").format(where=self.where("target"))
                raise StopError(error.message + where, error.exit_code) from error
            raise

    def select(self, given: list[str] | None, chain: tuple[Check, ...]) -> tuple[str, ...]:
        """Return what to show."""
        if self.is_given("select") or not self.file.select:
            return codes(given, chain, "--select", links=True)
        return codes(list(self.file.select), chain, self.where("select"), links=True)

    def waivers(self, chain: Sequence[Check], *, foreign: bool = False) -> tuple[Waiver, ...]:
        """Return the faults that were decided to be lived with.

        Args:
            foreign: checks of other distributions do not run here, so that their codes are not known.

        Raises:
            StopError: there is no such code.
        """
        if not self.file.waivers:
            return ()
        import difflib  # noqa: PLC0415

        from flexdoctor import waivers  # noqa: PLC0415
        from flexdoctor.tables import nearest  # noqa: PLC0415

        known = [fault.code for link in chain for fault in link.faults]
        own = [fault.code for fault in waivers.FAULTS]
        for item in self.file.waivers:
            if item.code not in (*known, *own) and not (foreign and not item.code.startswith("FD")):
                said = Text("{where}: there is no code {code};", "{where}：不存在代码 {code}；")
                near = difflib.get_close_matches(item.code, known, n=1, cutoff=0.5)
                hint = nearest(item.code, near) if near else LIST_OF_CODES
                raise StopError(said.format(where=self.where("ignore"), code=item.code) + hint, 2)
        return self.file.waivers

    @property
    def shown(self) -> str | None:
        """The file, as a report names it."""
        from flexdoctor.readers.trees import fold_home  # noqa: PLC0415

        return fold_home(self.file.path) if self.file.path else None

    @property
    def not_read(self) -> str | None:
        """The file beside it that has something to say and was not read."""
        return self.file.beside.name if self.file.beside else None


def settle(context: typer.Context, config: Path | None, no_config: bool) -> Settings:
    """Read the file of settings, and let a company's sets of packages count as known while the command runs.

    Raises:
        StopError: it cannot be used.
    """
    from flexdoctor.configuration import Configuration, folders_with_files  # noqa: PLC0415

    settings = Settings(context, Configuration())
    named = config is not None
    if config and no_config and not settings.is_by_variable("config"):
        said = Text(
            "--config and --no-config contradict each other; name one", "--config 与 --no-config 互相矛盾，请只用一个"
        )
        raise StopError(said, 2)
    if no_config or (config is None and next(folders_with_files(), None) is None):
        return settings
    from flexdoctor import configuration_file  # noqa: PLC0415
    from flexdoctor.tables import TableError  # noqa: PLC0415

    try:
        file = configuration_file.load(config) if config else configuration_file.find()
        if file.knowledge:
            _extend_knowledge(context, file)
    except TableError as error:
        hint = NOTHING if named else Text("(--no-config leaves it out)", "（可用 --no-config 跳过）")
        if settings.is_by_variable("config"):
            hint = Text("(named by FLEXDOCTOR_CONFIG)", "（由 FLEXDOCTOR_CONFIG 指定）")
        raise StopError(error.message + hint, 2) from error
    return Settings(context, file)


def _extend_knowledge(context: typer.Context, file: Configuration) -> None:
    from flexdoctor.knowledge import overlay, stacks  # noqa: PLC0415
    from flexdoctor.tables import TableError  # noqa: PLC0415

    if missing := next((path for path in file.knowledge if not path.exists()), None):
        said = Text("{path}: knowledge: there is no file {missing}", "{path}：knowledge：没有文件 {missing}")
        raise TableError(said.format(path=file.path, missing=missing))
    context.with_resource(stacks.extended(overlay.load(file.knowledge)))


def extend_chain(settings: Settings, chain: tuple[Check, ...], named: list[str] | None) -> tuple[Check, ...]:
    """Return `chain` with the checks of the plugins that the file and the command line name.

    Raises:
        StopError: there is no such plugin, or it cannot stand there.
    """
    if not named and not settings.file.plugins:
        return chain
    from flexdoctor.plugins import loading  # noqa: PLC0415 - no plugin is even looked for unless one is named

    def show(plugin: str, printed: str) -> None:
        typer.echo("".join(f"{plugin}: {line}\n" for line in printed.splitlines()), err=True, nl=False)

    try:
        plugins = [
            *loading.pick(settings.file.plugins, settings.where("plugins")),
            *loading.pick(
                [name for name in dict.fromkeys(named or ()) if name not in settings.file.plugins], "--plugin"
            ),
        ]
        joined = loading.joined(chain, plugins, seconds=settings.file.plugin_seconds, show=show)
        return settings.context.with_resource(joined)
    except loading.PluginError as error:
        raise StopError(error.message, 2) from error
