"""What the Hub itself says about a kernel, through huggingface_hub, within a time limit of our own.

Read are the branches, the names of the build variants and the small Python files of one of them; never the binary.
The client retries for minutes where a person wants an answer, so it runs in a thread that is left behind when its
time is over.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from flexdoctor.hub_facts import HubAnswer, Surface
from flexdoctor.readers.hub_surfaces import parse_variant, read_surface

#: A host that has not answered a question by then is taken for hopeless.
ANSWER_SECONDS = 4.0
#: For one small file, and for everything together.
FILE_SECONDS = 10.0
TOTAL_SECONDS = 40.0
MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 120
T = TypeVar("T")


class _NoAnswerError(Exception):
    """The time is over."""


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise when it takes longer; the thread is a daemon and holds nobody up."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append((True, work()))
        except BaseException as error:  # noqa: BLE001 - handed over to the caller
            box.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if not box:
        raise _NoAnswerError(f"no answer within {seconds:.0f} s")
    succeeded, value = box[0]
    if succeeded:
        result: T = value
        return result
    raise value


def read_online(repo: str, wanted: str, names: Iterable[str]) -> Surface | HubAnswer:
    """Return the surface of a kernel as the Hub has it now, or why it could not be had.

    Args:
        wanted: a version ("3"), a branch ("v3", "main") or a commit; "" for the newest version.
    """
    try:
        from huggingface_hub.utils import logging as client_logging  # noqa: PLC0415 - heavy, and only for this
        from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415
    except ImportError as error:
        return HubAnswer(repo, wanted, "no answer", f"huggingface_hub cannot be imported: {error}")
    # What the client tells while it retries is told in the finding.
    client_logging.set_verbosity(logging.CRITICAL)
    disable_progress_bars()
    deadline = time.monotonic() + TOTAL_SECONDS
    try:
        return _Reader(repo, wanted, deadline).read(tuple(names))
    except _NoAnswerError as error:
        return HubAnswer(repo, wanted, "no answer", str(error))
    except Exception as error:  # noqa: BLE001 - whatever a client raises is an answer to report
        return _answer(repo, wanted, error)


def _answer(repo: str, wanted: str, error: Exception) -> HubAnswer:
    from huggingface_hub import errors  # noqa: PLC0415

    text = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]
    if isinstance(error, errors.GatedRepoError):
        return HubAnswer(repo, wanted, "gated", text)
    if isinstance(error, errors.RepositoryNotFoundError):
        return HubAnswer(repo, wanted, "no repository", text)
    if isinstance(error, errors.RevisionNotFoundError | _NoRevisionError):
        return HubAnswer(repo, wanted, "no revision", str(error) if isinstance(error, _NoRevisionError) else text)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return HubAnswer(repo, wanted, "offline", text)
    if isinstance(error, _NoBuildError) or (
        isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError)
    ):
        return HubAnswer(repo, wanted, "unreadable", "the repository has no build folder: it holds no kernel")
    return HubAnswer(repo, wanted, "no answer", text)


class _NoRevisionError(Exception):
    """The Hub has the repository, but not that branch."""


class _Reader:
    def __init__(self, repo: str, wanted: str, deadline: float) -> None:
        from huggingface_hub import HfApi  # noqa: PLC0415

        self.api = HfApi()
        self.repo = repo
        self.wanted = wanted
        self.deadline = deadline

    def _ask(self, work: Callable[[], T], limit: float = ANSWER_SECONDS) -> T:
        return _within(min(limit, self.deadline - time.monotonic()), work)

    def read(self, names: tuple[str, ...]) -> Surface:
        kind, branches = self._branches()
        commit, refs = self._commit(branches)
        variants = self._variants(kind, commit)
        if not variants:
            raise _NoBuildError
        chosen = min(variants, key=lambda name: (parse_variant(name).kind != "noarch", name))
        # Not into the user's cache: a partial snapshot there would make later offline use fail.
        with tempfile.TemporaryDirectory(prefix="flexdoctor-") as folder:
            build = Path(folder) / "build"
            for name in variants:
                (build / Path(name).name).mkdir(parents=True, exist_ok=True)
            self._fetch(kind, commit, chosen, Path(folder))
            surface = read_surface(Path(folder), names, repo=self.repo, origin="hub", prefer=chosen)
        return _relocate(
            dataclasses.replace(
                surface,
                repo_type=kind,
                commit=commit,
                refs=refs,
                refs_known=True,
                publisher_trusted=self._trusted(),
            ),
            folder,
            f"{self.repo}@{commit[:12]}",
        )

    def _branches(self) -> tuple[Any, dict[str, str]]:
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError  # noqa: PLC0415

        def refs(kind: str) -> dict[str, str]:
            answer = self.api.list_repo_refs(self.repo, repo_type=kind)
            return {item.name: item.target_commit for item in (*answer.branches, *answer.tags)}

        try:
            return "kernel", self._ask(lambda: refs("kernel"))
        except RepositoryNotFoundError as error:
            if isinstance(error, GatedRepoError):
                raise
            return "model", self._ask(lambda: refs("model"))

    def _commit(self, branches: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        versions = sorted((int(name[1:]) for name in branches if name[:1] == "v" and name[1:].isdigit()), reverse=True)
        newest = f"v{versions[0]}" if versions else "main"
        for name in (self.wanted, f"v{self.wanted}") if self.wanted else (newest,):
            if name in branches:
                commit = branches[name]
                return commit, tuple(sorted(ref for ref, points_to in branches.items() if points_to == commit))
        if len(self.wanted) == 40 and all(letter in "0123456789abcdef" for letter in self.wanted):
            return self.wanted, ()
        raise _NoRevisionError(f"there is no {self.wanted or newest}; it has {', '.join(sorted(branches)) or 'none'}")

    def _variants(self, kind: str, commit: str) -> list[str]:
        from huggingface_hub.hf_api import RepoFolder  # noqa: PLC0415

        def names() -> list[str]:
            tree = self.api.list_repo_tree(self.repo, path_in_repo="build", repo_type=kind, revision=commit)
            return [Path(item.path).name for item in tree if isinstance(item, RepoFolder)]

        return self._ask(names)

    def _fetch(self, kind: str, commit: str, variant: str, folder: Path) -> None:
        from huggingface_hub.hf_api import RepoFile  # noqa: PLC0415

        def names() -> list[str]:
            tree = self.api.list_repo_tree(
                self.repo, path_in_repo=f"build/{variant}", repo_type=kind, revision=commit, recursive=True
            )
            files = [item for item in tree if isinstance(item, RepoFile) and item.size <= MAX_FILE_BYTES]
            return [item.path for item in files if item.path.endswith((".py", "metadata.json"))][:MAX_FILES]

        for name in self._ask(names):
            if ".." not in PurePosixPath(name).parts:
                self._ask(functools.partial(self._download, kind, commit, name, folder), FILE_SECONDS)

    def _download(self, kind: str, commit: str, name: str, folder: Path) -> None:
        self.api.hf_hub_download(
            self.repo, name, repo_type=kind, revision=commit, local_dir=folder, etag_timeout=ANSWER_SECONDS
        )

    def _trusted(self) -> bool | None:
        try:
            overview = self._ask(lambda: self.api.get_organization_overview(self.repo.partition("/")[0]))
        except Exception:  # noqa: BLE001 - a user's own namespace has no overview; then it is just not known
            return None
        trusted = getattr(overview, "trustedKernelPublisher", None)
        return trusted if isinstance(trusted, bool) else None


class _NoBuildError(Exception):
    """The repository is there and holds no kernel."""


def _relocate(surface: Surface, folder: str, name: str) -> Surface:
    """Write repository and commit where the temporary folder stood."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(folder, name)
        if isinstance(value, tuple):
            return tuple(moved(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(
                value, **{item.name: moved(getattr(value, item.name)) for item in dataclasses.fields(value)}
            )
        return value

    result: Surface = moved(surface)
    return result
