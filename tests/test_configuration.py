"""Settings from a file: where they are found, what is refused, what beats what."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest
from in_process import run

from flexdoctor import configuration
from flexdoctor.configuration import Configuration
from flexdoctor.configuration_file import SHAPE, find, load
from flexdoctor.findings import CAPABILITIES, Waiver
from flexdoctor.knowledge import overlay
from flexdoctor.tables import Shape, TableError, hold, json_schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = json.loads(files("flexdoctor").joinpath("configuration.schema.json").read_text(encoding="utf-8"))
REPORT = json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text(encoding="utf-8"))
WHOLE = """
select = ["FD2", "packages"]
fail-on = "warning"
strict = true
require = "compiled_backward"
plugins = ["corp-checks"]
plugin-time-limit = 3
knowledge = "corp.toml"

[ignore]
FD243 = "no document masks here"
FD114 = { reason = "until the mirror has it", expires = 2027-03-31 }
FD112 = { reason = "the same as text", expires = "2027-04-01" }

[target]
site-packages = "image/site-packages"
root = "image"
env-file = "image.env"
"""


def write(folder: Path, text: str, name: str = "flexdoctor.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data.isoformat() if isinstance(data, datetime.date) else data


def test_every_key_is_settled(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    assert load(path) == Configuration(
        path=path,
        select=("FD2", "packages"),
        waivers=(
            Waiver("FD243", "no document masks here", None, str(path)),
            Waiver("FD114", "until the mirror has it", datetime.date(2027, 3, 31), str(path)),
            Waiver("FD112", "the same as text", datetime.date(2027, 4, 1), str(path)),
        ),
        fail_on="warning",
        strict=True,
        require="compiled_backward",
        target={
            "site_packages": tmp_path / "image/site-packages",
            "root": tmp_path / "image",
            "env_file": tmp_path / "image.env",
        },
        knowledge=(tmp_path / "corp.toml",),
        plugins=("corp-checks",),
        plugin_seconds=3,
    )


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "flexdoctor.toml"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert load(path).fail_on == "warning"


def test_nothing_is_settled_where_no_file_speaks_of_us(tmp_path: Path) -> None:
    write(tmp_path, "[tool.other]\nstrict = true\n", "pyproject.toml")
    (tmp_path / ".git").mkdir()
    assert find(tmp_path) == Configuration()


def test_a_broken_file_of_others_is_none_of_our_business(tmp_path: Path) -> None:
    write(tmp_path, "[tool.other\nname = ", "pyproject.toml")
    (tmp_path / ".git").mkdir()
    assert find(tmp_path) == Configuration()


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    write(tmp_path, "strict = true\n")
    near = write(tmp_path / "a", '[tool.flexdoctor]\nfail-on = "warning"\n', "pyproject.toml")
    write(tmp_path / "a/b", "[project]\nname = 'b'\n", "pyproject.toml")
    found = find(tmp_path / "a/b")
    assert (found.path, found.fail_on, found.strict) == (near, "warning", None)


@pytest.mark.parametrize("marker", [".git", ".hg", ".svn"])
def test_nothing_above_the_root_of_a_repository_is_read(tmp_path: Path, marker: str) -> None:
    write(tmp_path, "strict = true\n")
    (tmp_path / "repository" / "sub").mkdir(parents=True)
    (tmp_path / "repository" / marker).mkdir()
    assert find(tmp_path / "repository/sub") == Configuration()


def test_a_worktree_has_a_file_for_its_root(tmp_path: Path) -> None:
    write(tmp_path, "strict = true\n")
    write(tmp_path / "tree", "gitdir: elsewhere\n", ".git")
    assert find(tmp_path / "tree") == Configuration()
    write(tmp_path / "tree", "strict = false\n")
    assert find(tmp_path / "tree").strict is False


def test_nothing_above_the_home_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "strict = true\n")
    (tmp_path / "home" / "work").mkdir(parents=True)
    assert find(tmp_path / "home" / "work").strict is True
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find(tmp_path / "home" / "work") == Configuration()


def test_our_own_file_wins_in_one_folder_and_the_other_is_named(tmp_path: Path) -> None:
    own = write(tmp_path, "strict = true\n")
    shared = write(tmp_path, "[tool.flexdoctor]\nstrict = false\n", "pyproject.toml")
    assert (find(tmp_path).path, find(tmp_path).beside, find(tmp_path).strict) == (own, shared, True)
    shared.write_text("[tool.other]\n")
    assert find(tmp_path).beside is None


def test_a_current_folder_that_is_gone_settles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find() == Configuration()


REFUSED = [
    ('fail_on = "error"', "there is no key fail_on; did you mean fail-on?"),
    ("stric = true", "there is no key stric; did you mean strict?"),
    ("colour-of-the-sky = 1", "there is no key colour-of-the-sky; there are select, ignore, fail-on, strict"),
    ('format = "json"', "format is not set here; use --format or FLEXDOCTOR_FORMAT"),
    ("[tool.flexdoctor]", "the keys stand at the top, without [tool.flexdoctor]"),
    ('strict = "yes"', "strict: expected true or false, found the text 'yes'"),
    ('select = "FD2"', "select: expected a list, found the text 'FD2'"),
    ("select = [1]", "select[0]: expected text, found the number 1"),
    ('fail-on = "eror"', "fail-on: expected one of error, warning, found 'eror'"),
    ('require = "forward"', f"require: expected one of {', '.join(CAPABILITIES)}, found 'forward'"),
    ('ignore = ["FD114"]', "ignore: expected a table of codes with the reason for each"),
    ('[ignore]\nfd114 = "x"', "ignore: expected a code like FD114, found 'fd114'"),
    ('[ignore]\nFD114 = ""', "ignore.FD114: reason: expected text, found nothing"),
    ("[ignore]\nFD114 = true", "ignore.FD114: expected a table, found true"),
    ("[ignore.FD114]\nexpires = 2027-01-01", "ignore.FD114: reason is missing"),
    (
        '[ignore.FD114]\nreason = "x"\nexpires = "soon"',
        "expires: expected a date like 2027-03-31, found the text 'soon'",
    ),
    ('[ignore.FD114]\nreason = "x"\nexpires = "2027-02-30"', "expected a date like 2027-03-31, found '2027-02-30'"),
    ('[ignore.FD114]\nreason = "x"\nuntil = 1', "ignore.FD114: there is no key until; there are reason, expires"),
    ('[target]\npython = "a"\nwheels = "b"', "target: python and wheels are 2 targets; name one"),
    ('[target]\nplatform = "linux_aarch64"', "target: platform goes with requirements or wheels"),
    ('[target]\npython = "a"\nroot = "b"', "target: root goes with site-packages"),
    ('[target]\npython = "a"\nplatform = "b"', "target: platform goes with requirements or wheels"),
    ('[target]\nsite-packages = "a"\nenv-file = "b"', "target: env-file goes with root"),
    ('[target]\nrequirements = "-"', "target: requirements: expected a path"),
    ("target = 3", "target: expected a table, found the number 3"),
    ("plugin-time-limit = 0", "plugin-time-limit: expected a number of seconds above 0, found the number 0"),
    ("plugin-time-limit = true", "expected a number of seconds above 0, found true"),
    ("knowledge = [1]", "knowledge[0]: expected text, found the number 1"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_is_wrong_is_told_with_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text + "\n")
    with pytest.raises(TableError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'strict = true\nfail-on = "error\n')
    with pytest.raises(TableError, match=rf"^{path}:2: not valid TOML: "):
        load(path)


def test_another_encoding_names_the_line_and_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "flexdoctor.toml"
    path.write_bytes("strict = true\n# 昇腾\n".encode("gbk"))
    with pytest.raises(TableError, match=rf"^{path}:2: expected UTF-8, found the byte 0x"):
        load(path)


def test_what_is_no_file_is_an_error_and_never_hangs(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="expected a file, found a folder"):
        load(tmp_path)
    (tmp_path / "link.toml").symlink_to("nowhere")
    with pytest.raises(TableError, match="expected a file, found none"):
        load(tmp_path / "link.toml")
    os.mkfifo(tmp_path / "flexdoctor.toml")
    with pytest.raises(TableError, match="expected a file, found none"):
        find(tmp_path)


def test_a_named_pyproject_must_have_our_table(tmp_path: Path) -> None:
    path = write(tmp_path, "[project]\nname = 'x'\n", "pyproject.toml")
    with pytest.raises(TableError, match=r"has no table \[tool.flexdoctor\]"):
        load(path)
    path.write_text("[tool]\nflexdoctor = 1\n")
    with pytest.raises(TableError, match=r"tool\.flexdoctor: expected a table"):
        find(tmp_path)


@pytest.mark.parametrize(
    ("shape", "package", "name"),
    [
        (SHAPE, "flexdoctor", "configuration.schema.json"),
        (overlay.SHAPE, "flexdoctor.knowledge", "overlay.schema.json"),
    ],
)
def test_the_shipped_schema_is_that_of_the_keys(shape: Shape, package: str, name: str) -> None:
    shipped = json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(shipped)
    assert shipped == json_schema(shape), f"write {name} anew: json.dumps(json_schema(...), indent=2)"


def test_the_schema_accepts_what_we_accept() -> None:
    jsonschema.validate(plain(tomllib.loads(WHOLE)), SCHEMA)


#: What no schema can say: keys that exclude or need each other, and a day that there is not.
BEYOND_A_SCHEMA = ("goes with", "2 targets", "requirements: expected a path", "'2027-02-30'")


@pytest.mark.parametrize(("text", "said"), [row for row in REFUSED if not any(s in row[1] for s in BEYOND_A_SCHEMA)])
def test_the_schema_refuses_what_we_refuse(text: str, said: str) -> None:
    data = tomllib.loads(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain(data), SCHEMA)
    with pytest.raises(TableError, match=re.escape(said)):
        hold(data, SHAPE, "here")


@pytest.fixture
def project(tmp_path: Path, site: Path) -> Path:
    """A project whose file names an environment without a fault, but for one warning."""
    builders.install_healthy(site)
    (tmp_path / ".git").mkdir()
    write(tmp_path, f'fail-on = "warning"\n[target]\nsite-packages = "{site.name}"\n')
    return tmp_path


def test_the_file_names_the_target_and_is_named(project: Path) -> None:
    done = run("check", cwd=project)
    assert done.stdout.splitlines()[1] == f"configuration {project}/flexdoctor.toml"
    assert f"examining {project}/site-packages" in done.stdout
    report = json.loads(run("check", "-f", "json", cwd=project).stdout)
    jsonschema.validate(report, REPORT)
    assert report["configuration"] == f"{project}/flexdoctor.toml"
    assert (
        run("check", "--no-config", "--site-packages", "site-packages", cwd=project).stdout.count("configuration") == 0
    )


def test_the_line_says_what_is_not_read(project: Path) -> None:
    write(project, "[tool.flexdoctor]\n", "pyproject.toml")
    line = run("check", cwd=project).stdout.splitlines()[1]
    assert line == f"configuration {project}/flexdoctor.toml (pyproject.toml is not read beside it)"
    line = run("check", "--lang", "zh", cwd=project).stdout.splitlines()[1]
    assert line == f"配置文件 {project}/flexdoctor.toml（同目录的 pyproject.toml 未读取）"


def test_flags_beat_the_environment_and_both_beat_the_file(project: Path) -> None:
    """The one finding is a warning: it fails by the file, not by the variable, and again by the flag."""
    assert json.loads(run("check", "-f", "json", cwd=project).stdout)["findings"]
    warns = [
        item["code"]
        for item in json.loads(run("check", "-f", "json", cwd=project).stdout)["findings"]
        if item["severity"] == "warning"
    ]
    assert warns
    assert run("check", cwd=project).returncode == 1
    assert run("check", cwd=project, FLEXDOCTOR_FAIL_ON="error").returncode == 0
    assert run("check", "--fail-on", "warning", cwd=project, FLEXDOCTOR_FAIL_ON="error").returncode == 1
    assert run("check", cwd=project, FLEXDOCTOR_FAIL_ON="").returncode == 1
    assert run("check", "--fail-on", "error", cwd=project).returncode == 0


def test_empty_variables_count_as_unset(project: Path) -> None:
    names = ("FORMAT", "LANG", "REQUIRE", "FAIL_ON", "STRICT", "TIMEOUT", "NPU_SMI_LIMIT", "CONFIG")
    empty = {f"FLEXDOCTOR_{name}": "" for name in names}
    assert run("check", cwd=project, **empty).stdout == run("check", cwd=project).stdout


def test_require_of_the_file_decides_but_does_not_make_missing_hardware_an_error(project: Path) -> None:
    write(project, 'require = "compiled_captured"\n[target]\nsite-packages = "site-packages"\n')
    report = json.loads(run("check", "-f", "json", cwd=project).stdout)
    assert report["required"] == "compiled_captured"
    assert json.loads(run("check", "-f", "json", "--require", "eager", cwd=project).stdout)["required"] == "eager"
    assert json.loads(run("check", "-f", "json", cwd=project, FLEXDOCTOR_REQUIRE="eager").stdout)["required"] == "eager"


def test_a_target_of_the_command_line_replaces_the_whole_of_the_file(project: Path) -> None:
    write(project, '[target]\nrequirements = "requirements.txt"\nplatform = "linux_x86_64"\n')
    write(project, "torch==2.13.0\n", "requirements.txt")
    planned = json.loads(run("check", "-f", "json", cwd=project).stdout)["target"]
    assert (planned["kind"], planned["architecture"]) == ("requirements", "x86_64")
    other = run("check", "-f", "json", "--platform", "linux_aarch64", cwd=project)
    assert json.loads(other.stdout)["target"]["architecture"] == "aarch64"
    present = json.loads(run("check", "-f", "json", "--site-packages", "site-packages", cwd=project).stdout)
    assert present["target"]["kind"] == "site-packages"
    recorded = json.loads(run("snapshot", cwd=project / "site-packages").stdout)
    assert recorded["facts"]["target"]["kind"] == "requirements"


def test_an_error_says_that_the_file_names_the_target(project: Path) -> None:
    path = write(project, '[target]\nrequirements = "absent.txt"\n')
    done = run("check", cwd=project)
    assert done.returncode == 3
    assert done.stderr.rstrip().endswith(f"({path}: target)")
    assert f"({path}: target)" not in run("check", "-r", "absent.txt", cwd=project).stderr


def test_fix_and_undo_take_the_interpreter_of_the_file(project: Path) -> None:
    """What was examined is what is treated: never another environment than that of check."""
    write(project, '[target]\npython = "absent"\n')
    for command in ("check", "fix", "undo"):
        done = run(command, cwd=project)
        assert done.returncode == 3
        assert f"{project}/absent" in done.stderr


def test_a_config_that_cannot_be_used_is_a_wrong_command_line_in_every_format(project: Path) -> None:
    path = write(project, "stric = true\n")
    for command in (["check"], ["fix"], ["undo"], ["snapshot"], ["list", "stacks"]):
        done = run(*command, cwd=project)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"flexdoctor: {path}: there is no key stric; did you mean strict? (--no-config leaves it out)\n"
        )
    report = json.loads(run("check", "-f", "json", cwd=project).stdout)
    jsonschema.validate(report, REPORT)
    assert report["error"]["exit_code"] == 2


def test_a_file_can_be_named(project: Path, tmp_path: Path) -> None:
    other = write(
        tmp_path / "elsewhere", 'fail-on = "error"\n[target]\nsite-packages = "../site-packages"\n', "ci.toml"
    )
    assert run("check", "--config", str(other), cwd=project).returncode == 0
    assert run("check", cwd=project, FLEXDOCTOR_CONFIG=str(other)).returncode == 0
    assert run("check", "--config", "flexdoctor.toml", cwd=project, FLEXDOCTOR_CONFIG=str(other)).returncode == 1
    both = run("check", "--config", str(other), "--no-config", cwd=project)
    assert (both.returncode, both.stderr) == (
        2,
        "flexdoctor: --config and --no-config contradict each other; name one\n",
    )
    absent = run("check", cwd=project, FLEXDOCTOR_CONFIG="absent.toml")
    assert absent.stderr == "flexdoctor: absent.toml: expected a file, found none (named by FLEXDOCTOR_CONFIG)\n"


def test_an_error_names_the_variable_only_when_the_value_came_from_it(project: Path) -> None:
    by_variable = run("check", cwd=project, FLEXDOCTOR_FAIL_ON="never").stderr
    assert "Invalid value for '--fail-on' (from the variable FLEXDOCTOR_FAIL_ON)" in by_variable
    by_flag = run("check", "--fail-on", "never", cwd=project).stderr
    assert "FLEXDOCTOR_FAIL_ON" not in by_flag


def test_select_of_the_file_is_checked_and_replaced(project: Path) -> None:
    path = write(project, 'select = ["FD2x"]\n[target]\nsite-packages = "site-packages"\n')
    assert f"flexdoctor: {path}: select: there is no FD2x" in run("check", cwd=project).stderr
    assert run("check", "--select", "packages", cwd=project).returncode == 0
    write(project, 'select = ["triton_install"]\n[target]\nsite-packages = "site-packages"\n')
    report = json.loads(run("check", "-f", "json", cwd=project).stdout)
    assert {item["link"] for item in report["findings"]} == {"triton_install"}


def test_today_is_a_day() -> None:
    assert isinstance(configuration.today(), datetime.date)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_may_not_be_entered_settles_nothing(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o700)
    code = (
        "import os, sys\nfrom flexdoctor.configuration import folders_with_files\n"
        "os.chdir(sys.argv[1]); os.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
        "print(list(folders_with_files()))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(inner)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
