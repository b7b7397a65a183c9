"""Finding the interpreter and its folders: by files where they suffice, by one bounded child otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cann_trees as trees
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.readers import interpreter
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.interpreter import TargetError, default_target, elf_architecture, read_environment


def fake_venv(prefix: Path, *, version: str = "3.11.9", executable: str | None = None) -> Path:
    (prefix / "lib/python3.11/site-packages").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\ninclude-system-site-packages = false\n")
    if executable is not None:
        script(prefix / "bin/python", executable)
    return prefix


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


MUST_NOT_RUN = '#!/bin/sh\necho ran > "$(dirname "$0")/ran"\n'


def test_a_venv_is_read_without_starting_it(tmp_path: Path) -> None:
    prefix = fake_venv(tmp_path, executable=MUST_NOT_RUN)
    for target in (prefix, prefix / "bin/python"):
        found = read_environment(target)
        assert found.facts.version == "3.11.9"
        assert found.search_path == (prefix / "lib/python3.11/site-packages",)
        assert found.facts.learned_from == str(prefix / "pyvenv.cfg")
    assert not (prefix / "bin/ran").exists()


def test_uv_and_virtualenv_spell_the_version_otherwise(tmp_path: Path) -> None:
    prefix = fake_venv(tmp_path, executable=MUST_NOT_RUN)
    (prefix / "pyvenv.cfg").write_text("home = /x\nversion_info = 3.11.4.final.0\nimplementation = CPython\n")
    found = read_environment(prefix)
    assert (found.facts.version, found.facts.implementation) == ("3.11.4", "cpython")


def test_a_conda_prefix(tmp_path: Path) -> None:
    prefix = fake_venv(tmp_path, executable=MUST_NOT_RUN)
    (prefix / "pyvenv.cfg").unlink()
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/python-3.11.8-h955ad1f_0.json").touch()
    found = read_environment(prefix)
    assert found.facts.version == "3.11.8"
    assert not (prefix / "bin/ran").exists()


def test_a_real_venv_agrees_with_its_interpreter(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    found = read_environment(tmp_path / "v")
    asked = subprocess.run(
        [str(tmp_path / "v/bin/python"), "-c", "import platform; print(platform.python_version(), platform.machine())"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert [found.facts.version, found.facts.architecture] == asked


def test_an_interpreter_without_layout_is_asked(tmp_path: Path) -> None:
    base = Path(sys.base_prefix, "bin", "python3")
    wrapper = script(tmp_path / "python", f'#!/bin/sh\nexec "{base}" "$@"\n')
    found = read_environment(wrapper)
    assert found.facts.version == ".".join(map(str, sys.version_info[:3]))
    assert found.facts.learned_from == f"{wrapper} -I"
    assert any(path.name == "site-packages" for path in found.search_path)


def test_noise_on_stdout_does_not_matter(tmp_path: Path) -> None:
    base = Path(sys.base_prefix, "bin", "python3")
    wrapper = script(tmp_path / "python", f'#!/bin/sh\necho "license check: {{}}"\n"{base}" "$@"\necho bye\n')
    assert read_environment(wrapper).facts.version == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\nexit 3\n", "exit code 3"),
        ("#!/bin/sh\necho not json\n", "is not a Python that can be asked"),
        ("#!/bin/sh\nkill -SEGV $$\n", "killed by signal 11"),
        ("#!/bin/sh\necho missing libpython >&2; exit 127\n", "missing libpython"),
        ("#!/nonexistent/interpreter\n", "does not start"),
        ("", "does not start"),
    ],
)
def test_an_interpreter_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        read_environment(script(tmp_path / "python", text))


def test_an_interpreter_that_hangs_is_left_after_its_time(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"did not answer within 0\.2 s"):
        read_environment(script(tmp_path / "python", "#!/bin/sh\nexec sleep 600\n"), time_limit=0.2)


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_path_that_is_no_environment(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TargetError, match=r"does not exist|neither an interpreter nor"):
        read_environment(tmp_path / name)


def test_a_venv_whose_base_is_gone_is_still_read(tmp_path: Path) -> None:
    prefix = fake_venv(tmp_path)
    (prefix / "bin/python").symlink_to("/nonexistent/python3.11")
    found = read_environment(prefix)
    assert found.facts.version == "3.11.9"
    assert found.facts.unread[0].reason == "missing or a dangling link"


def test_pth_files_extend_the_search_path_and_their_code_is_not_run(tmp_path: Path) -> None:
    prefix = fake_venv(tmp_path, executable=MUST_NOT_RUN)
    (tmp_path / "elsewhere").mkdir()
    site = prefix / "lib/python3.11/site-packages"
    (site / "a.pth").write_text(
        f"import os; os.mkdir({str(tmp_path / 'made')!r})\n{tmp_path}/elsewhere\n# x\nnowhere\n"
    )
    assert read_environment(prefix).search_path == (site, tmp_path / "elsewhere")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_is_the_default(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "/some/env")
    assert default_target() == (Path("/some/env"), f"${variable}")


def test_else_the_interpreter_that_runs_us() -> None:
    assert default_target()[0] == Path(sys.executable)
    assert read_environment(Path(sys.executable)).facts.version == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(("machine", "expected"), [(0x3E, "x86_64"), (0xB7, "aarch64"), (0x28, None)])
def test_architecture_is_read_from_the_executable(tmp_path: Path, machine: int, expected: str | None) -> None:
    (tmp_path / "python").write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))
    assert elf_architecture(tmp_path / "python") == expected
    assert elf_architecture(tmp_path / "absent") is None
    assert interpreter.CHILD_TIME_LIMIT > 0


@pytest.mark.parametrize(("machine", "codes"), [(183, []), (62, ["FD102", "FD102"])])
def test_an_image_tells_its_architecture_by_its_python(tmp_path: Path, machine: int, codes: list[str]) -> None:
    site = trees.lay_site(tmp_path)
    real = tmp_path / "opt/python/bin/python3.11"
    real.parent.mkdir(parents=True)
    real.write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))
    trees.link(tmp_path, "/usr/local/bin/python3.11", "/opt/python/bin/python3.11")
    report = diagnose(read_site_packages(site, tmp_path), CHAIN)
    assert [item.code for item in report.findings if item.code == "FD102"] == codes
