"""Checks that other distributions bring: in their place when they behave, and alone in their trouble when not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest
import samples
from in_process import run

from flexdoctor.findings import exit_code
from flexdoctor.testing import example_facts, run_plugin

SCHEMA = json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text(encoding="utf-8"))
WELL_MADE = """
from flexdoctor.chain import Check
from flexdoctor.findings import Fault, found, passed
from flexdoctor.text import Text

TITLE = Text("title", "标题")
FAULT = Fault("ROG1001", Text("a fault of {what}", "{what} 的问题"), affects=("compiled_captured",))


def check(link, examine, **more):
    return Check(link=link, title=TITLE, question=TITLE, faults=more.pop("faults", (FAULT,)), examine=examine, **more)


def good(facts):
    yield passed("good", Text("all is well", "一切正常"))


GOOD = check("good", good)
"""
#: One module each, so that none of them is imported with another.
ROGUES = {
    "raises": "def examine(facts):\n    yield from ()\n    return 1 / 0\n\nCHECK = check('rogue', examine)\n",
    "loops": "def examine(facts):\n    while True:\n        pass\n\nCHECK = check('rogue', examine)\n",
    "exits": "import os\n\ndef examine(facts):\n    os._exit(7)\n\nCHECK = check('rogue', examine)\n",
    "leaves": "import sys\n\ndef examine(facts):\n    sys.exit(0)\n\nCHECK = check('rogue', examine)\n",
    "dies": "import os, signal\n\ndef examine(facts):\n    os.kill(os.getpid(), signal.SIGSEGV)\n\n"
    "CHECK = check('rogue', examine)\n",
    "hoards": "def examine(facts):\n    return [bytearray(1 << 40)]\n\nCHECK = check('rogue', examine)\n",
    "raises_at_import": "raise RuntimeError('no licence')\n",
    "loops_at_import": "while True:\n    pass\n",
    "forks": "import subprocess, sys\n\ndef examine(facts):\n"
    "    subprocess.run([sys.executable, '-c', 'import threading; threading.Event().wait()'])\n\n"
    "CHECK = check('rogue', examine)\n",
    "is_no_check": "CHECK = 3\n",
    "takes_our_prefix": "CHECK = check('rogue', good, faults=(Fault('FD999', TITLE),))\n",
    "speaks_for_another": "CHECK = check('rogue', lambda facts: [passed('packages', TITLE)])\n",
    "invents_a_code": "CHECK = check('rogue', lambda facts: [found('rogue', Fault('ROG2002', TITLE))])\n",
    "gives_no_findings": "CHECK = check('rogue', lambda facts: [1])\n",
    "weighs": "CHECK = check('rogue', good, weigh=lambda facts, before: [])\n",
}
SAID = {
    "raises": "ZeroDivisionError: division by zero",
    "loops": "it did not end within 1 s",
    "exits": "its process ended itself with exit code 7",
    "leaves": "SystemExit: 0",
    "dies": "its process was killed by SIGSEGV",
    "hoards": "MemoryError",
    "raises_at_import": "RuntimeError: no licence",
    "loops_at_import": "it did not end within 1 s",
    "forks": "it did not end within 1 s",
    "is_no_check": "expected a flexdoctor.chain.Check or several, found int",
    "takes_our_prefix": "code FD999: expected two to five capital letters of its own, not FD, and digits",
    "speaks_for_another": "it speaks for the link packages, not for rogue",
    "invents_a_code": "expected one of ROG1001 faults, found ROG2002",
    "gives_no_findings": "expected an object, found int",
    "weighs": "`weigh` is for flexdoctor's own links; use `examine`",
}


@pytest.fixture(scope="session")
def corp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example, built and installed by pip."""
    folder = tmp_path_factory.mktemp("corp")
    source = tmp_path_factory.mktemp("source") / "corp"
    shutil.copytree(Path(__file__).parent / "corp", source)  # a build leaves its files beside the source
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages beside flexdoctor's own."""
    folder = tmp_path / "beside"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def offer(folder: Path, name: str, points: dict[str, str], modules: dict[str, str]) -> None:
    """Install a distribution with entry points, each `name: module:attribute`."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    text = "[flexdoctor.checks]\n" + "".join(f"{point} = {value}\n" for point, value in points.items())
    builders.install(folder, name, "1.0", {**modules, f"{info}/entry_points.txt": text})


@pytest.fixture
def rogues(beside: Path) -> Path:
    modules = {f"rogue_{name}.py": WELL_MADE + body for name, body in ROGUES.items()}
    offer(beside, "rogue-checks", {name: f"rogue_{name}:CHECK" for name in ROGUES}, modules)
    return beside


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def settle(project: Path, *plugins: str, seconds: float = 30) -> None:
    names = ", ".join(f'"{name}"' for name in plugins)
    (project / "flexdoctor.toml").write_text(f"plugins = [{names}]\nplugin-time-limit = {seconds}\n")


def findings(text: str) -> dict[str, list[dict[str, Any]]]:
    report = json.loads(text)
    jsonschema.validate(report, SCHEMA)
    found: dict[str, list[dict[str, Any]]] = {}
    for item in report["findings"]:
        found.setdefault(item["link"], []).append(item)
    return found


@pytest.fixture(scope="session")
def healthy() -> dict[str, list[dict[str, Any]]]:
    """What is found without any plugin."""
    return findings(run("check", "--example", "8-healthy", "-f", "json", "--no-config").stdout)


@pytest.fixture
def with_corp(corp: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    monkeypatch.syspath_prepend(str(corp))
    settle(project, "corp-checks")
    return project


def test_the_worked_example_stands_in_its_place(with_corp: Path) -> None:
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=with_corp)
    found = findings(done.stdout)
    assert list(found)[:4] == ["interpreter", "packages", "corp_policy", "cann"]
    (finding,) = found["corp_policy"]
    assert (finding["status"], finding["code"]) == ("pass", None)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_fault_is_shown_in_both_languages_and_counts(with_corp: Path, site: Path) -> None:
    builders.install_torch(site, builders.TorchShape(version="2.12.0"))
    builders.install_torch_npu(site, builders.TorchNpuShape(version="2.12.0", torch_pin="torch==2.12.0"))
    arguments = ("check", "--site-packages", str(site), "--select", "CORP1")
    done = run(*arguments, cwd=with_corp)
    assert "WARN CORP101 corp_policy torch-npu 2.12.0 is not approved for our clusters fix: ask the" in done.stdout
    assert done.returncode == 0
    assert run(*arguments, "--fail-on", "warning", cwd=with_corp).returncode == 1
    assert "torch-npu 2.12.0 未获准用于我们的集群" in run(*arguments, "--lang", "zh", cwd=with_corp).stdout
    settings = with_corp / "flexdoctor.toml"
    settings.write_text(settings.read_text() + '[ignore]\nCORP101 = "a trial node"\n')
    waived = run(*arguments, "--fail-on", "warning", cwd=with_corp)
    assert waived.returncode == 0
    assert "WAIVED CORP101" in waived.stdout


def test_what_it_requires_is_honoured(with_corp: Path, site: Path) -> None:
    builders.install_torch(site)
    builders.install(site, "torch-npu", "2.13.0")  # half there
    done = run("check", "--site-packages", str(site), "-f", "json", cwd=with_corp)
    (finding,) = findings(done.stdout)["corp_policy"]
    assert (finding["status"], finding["blocked_by"]) == ("blocked", "FD115")


def test_it_is_listed_and_explained(with_corp: Path) -> None:
    listed = run("list", "checks", cwd=with_corp).stdout
    assert " 3  corp_policy: is this torch-npu approved for our clusters?\n    CORP101  " in listed
    explained = run("explain", "CORP101", cwd=with_corp)
    assert explained.returncode == 0
    assert "Each release is run on our own clusters before it is approved." in explained.stdout


def test_it_can_be_tried_by_a_flag_and_is_absent_without(with_corp: Path) -> None:
    (with_corp / "flexdoctor.toml").unlink()
    arguments = ("check", "--example", "8-healthy", "-f", "json")
    assert "corp_policy" not in findings(run(*arguments, cwd=with_corp).stdout)
    assert "corp_policy" in findings(run(*arguments, "--plugin", "corp-checks", cwd=with_corp).stdout)


def test_an_author_tests_it_as_a_plugin(corp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(corp))
    (finding,) = run_plugin("corp_checks:CHECK", example_facts("8-healthy"))
    assert finding.status == "pass"


def test_what_is_not_named_is_never_imported(beside: Path, project: Path) -> None:
    mark = project / "imported"
    module = f"open({str(mark)!r}, 'w').close()\n" + WELL_MADE
    offer(beside, "quiet-checks", {"quiet": "quiet_checks:GOOD"}, {"quiet_checks.py": module})
    offer(beside, "good-checks", {"good": "good_checks:GOOD"}, {"good_checks.py": WELL_MADE})
    settle(project, "good")
    assert "good" in findings(run("check", "--example", "8-healthy", "-f", "json", cwd=project).stdout)
    run("list", "checks", cwd=project)
    assert not mark.exists()
    settle(project, "quiet")
    run("list", "checks", cwd=project)
    assert mark.exists()
    assert not {"quiet_checks", "good_checks"} & set(sys.modules)


@pytest.mark.parametrize("name", ROGUES)
def test_trouble_costs_only_its_own_link(
    rogues: Path, project: Path, name: str, healthy: dict[str, list[dict[str, Any]]]
) -> None:
    settle(project, name, seconds=1 if "did not end" in SAID[name] else 30)
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    found = findings(done.stdout)
    crashed = [item for items in found.values() for item in items if item["status"] == "crashed"]
    (finding,) = crashed
    assert finding["code"] == "FD004"
    assert finding["title"].startswith(f"the check of the plugin {name} failed: ")
    assert SAID[name] in finding["title"]
    assert any("rogue-checks 1.0" in item["text"] for item in finding["evidence"])
    assert done.returncode == 3
    assert {link: items for link, items in found.items() if link != finding["link"]} == healthy


def test_the_line_that_raised_is_the_proof(rogues: Path, project: Path) -> None:
    settle(project, "raises")
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    (finding,) = findings(done.stdout)["rogue"]
    proof = finding["evidence"][0]
    assert (proof["path"], proof["text"]) == (str(rogues / "rogue_raises.py"), "return 1 / 0")


def test_a_crash_takes_away_what_its_faults_would(rogues: Path, project: Path) -> None:
    """What a crashed check would have judged is unknown, and the exit code says that the run is not complete."""
    settle(project, "raises")
    report = json.loads(run("check", "--example", "8-healthy", "-f", "json", cwd=project).stdout)
    assert report["capabilities"]["compiled_captured"]["available"] in ("no", "unknown")
    assert run("check", "--example", "8-healthy", "--exit-zero", cwd=project).returncode == 0


def test_what_is_printed_never_reaches_the_report(beside: Path, project: Path) -> None:
    body = """
import os, subprocess, sys

print("at import")


def talk(facts):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.write(1, b"past Python\\n")
    subprocess.run(["sh", "-c", "echo from a child"], check=True)
    sys.stdout.close()
    yield passed("talk", Text("said", "说了"))


CHECK = check("talk", talk)
"""
    offer(beside, "talking-checks", {"talks": "talking:CHECK"}, {"talking.py": WELL_MADE + body})
    settle(project, "talks")
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    assert findings(done.stdout)["talk"][0]["status"] == "pass"
    said = sorted(done.stderr.splitlines())
    words = ("at import", "from a child", "past Python", "to stderr", "to stdout")
    assert said == [f"talks: {line}" for line in words]


def test_a_flood_of_words_is_cut(beside: Path, project: Path) -> None:
    body = """

def flood(facts):
    print("x" * 5_000_000)
    yield passed("good", TITLE)


CHECK = check("good", flood)
"""
    offer(beside, "flooding-checks", {"floods": "flooding:CHECK"}, {"flooding.py": WELL_MADE + body})
    settle(project, "floods")
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    assert findings(done.stdout)["good"][0]["status"] == "pass"
    assert len(done.stderr) < 20_000
    assert "bytes more)" in done.stderr


def test_one_plugin_may_bring_several_checks_by_a_function(beside: Path, project: Path) -> None:
    body = (
        "\n\ndef all_of_them():\n    return [GOOD, check('last', lambda facts: [passed('last', TITLE)], faults=())]\n"
    )
    offer(beside, "good-checks", {"good": "good_checks:all_of_them"}, {"good_checks.py": WELL_MADE + body})
    settle(project, "good")
    found = findings(run("check", "--example", "8-healthy", "-f", "json", cwd=project).stdout)
    assert list(found)[-2:] == ["good", "last"]


def test_a_name_that_is_not_there_is_an_error_with_the_nearest(rogues: Path, project: Path) -> None:
    settle(project, "raise")
    done = run("check", "--example", "8-healthy", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    where = f"{project}/flexdoctor.toml: plugins"
    assert done.stderr == f"flexdoctor: {where}: there is no plugin raise beside flexdoctor; did you mean raises?\n"
    done = run("check", "--example", "8-healthy", "--plugin", "zzz", "--no-config", cwd=project)
    assert done.stderr.startswith(
        "flexdoctor: --plugin: there is no plugin zzz beside flexdoctor; there are dies, exits"
    )


CLASHES = [
    ("CHECK = check('packages', good)", "plugin second: flexdoctor itself has a link packages already"),
    ("CHECK = check('good', good)", "plugin second: plugin first has a link good already"),
    ("CHECK = check('other', good)", "plugin second: plugin first has a code ROG1001 already"),
    (
        "CHECK = check('other', good, faults=(), after='pakages')",
        "after: there is no link pakages; did you mean packages?",
    ),
    (
        "CHECK = check('other', good, faults=(), requires=('cannn',))",
        "requires: there is no link cannn; did you mean cann?",
    ),
    (
        "CHECK = check('other', good, faults=(), requires=('cann',), after='packages')",
        "other requires cann, but stands before it (after packages)",
    ),
]


@pytest.mark.parametrize(("body", "said"), CLASHES)
def test_a_clash_is_an_error_that_names_both(beside: Path, project: Path, body: str, said: str) -> None:
    offer(beside, "first-checks", {"first": "first_checks:GOOD"}, {"first_checks.py": WELL_MADE})
    offer(beside, "second-checks", {"second": "second_checks:CHECK"}, {"second_checks.py": f"{WELL_MADE}\n{body}\n"})
    settle(project, "first", "second")
    done = run("check", "--example", "8-healthy", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_two_distributions_with_one_name_are_both_named(beside: Path, project: Path) -> None:
    for name in ("first", "second"):
        offer(beside, f"{name}-checks", {"same": f"{name}_checks:GOOD"}, {f"{name}_checks.py": WELL_MADE})
    settle(project, "same")
    done = run("check", "--example", "8-healthy", cwd=project)
    assert done.returncode == 2
    assert "first-checks 1.0 and second-checks 1.0 both bring a plugin same" in done.stderr


def test_a_plugin_sees_the_facts_whole(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """

def tell(facts):
    import json
    from flexdoctor.serialise import to_json
    yield passed("good", Text(json.dumps(to_json(facts), sort_keys=True), "x"))


CHECK = check("good", tell)
"""
    (beside / "telling.py").write_text(WELL_MADE + body)
    from flexdoctor.serialise import to_json  # noqa: PLC0415

    (finding,) = run_plugin("telling:CHECK", samples.HEALTHY)
    assert json.loads(finding.title.en) == to_json(samples.HEALTHY)


def test_the_folder_that_one_stands_in_cannot_stand_in_for_a_module(
    beside: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "json.py").write_text("raise SystemExit('not me')\n")
    offer(beside, "good-checks", {"good": "good_checks:GOOD"}, {"good_checks.py": WELL_MADE})
    settle(project, "good")
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    assert findings(done.stdout)["good"][0]["status"] == "pass"


def test_what_is_not_a_plugins_to_say_is_not_heard(beside: Path) -> None:
    """It may neither refute our own faults nor count with a severity where it found none."""
    body = """
import dataclasses

def boast(facts):
    finding = passed("good", TITLE)
    yield dataclasses.replace(finding, proves=("compiled_forward",), blocked_by="FD201", severity="error")
    yield found("good", FAULT, what="x")


CHECK = check("good", boast)
"""
    (beside / "boasting.py").write_text(WELL_MADE + body)
    holds, fault = run_plugin("boasting:CHECK", samples.HEALTHY)
    assert (holds.proves, holds.blocked_by, holds.severity, holds.waiver) == ((), None, "none", None)
    assert (fault.code, fault.severity) == ("ROG1001", "warning")


def test_its_words_stay_on_their_line(beside: Path, project: Path) -> None:
    body = r"""
from flexdoctor.findings import Evidence

WORDS = "one\nFAIL FD201 two\x1b[2J\t\u202ethree"


def shout(facts):
    yield found("good", FAULT, what=WORDS, detail=Text(WORDS, WORDS), evidence=[Evidence("file", WORDS, path=WORDS)])


CHECK = check("good", shout)
"""
    offer(beside, "loud-checks", {"loud": "loud:CHECK"}, {"loud.py": WELL_MADE + body})
    settle(project, "loud")
    done = run("check", "--example", "8-healthy", cwd=project)
    assert "a fault of one FAIL FD201 two\\x1b[2J \\u202ethree" in done.stdout
    assert not {"\x1b", "\u202e"} & set(done.stdout)
    assert not [line for line in done.stdout.splitlines() if line.startswith("FAIL FD201")]


def test_a_broken_plugin_may_have_the_name_of_a_link(beside: Path, project: Path) -> None:
    points = {"packages": "broken:CHECK", "a-b": "broken:CHECK", "a.b": "broken:CHECK"}
    offer(beside, "broken-checks", points, {"broken.py": "raise RuntimeError('no licence')\n"})
    settle(project, *points)
    done = run("check", "--example", "8-healthy", "-f", "json", cwd=project)
    assert done.returncode == 3
    crashed = [link for link, items in findings(done.stdout).items() if items[0]["status"] == "crashed"]
    assert crashed == ["plugin_packages", "plugin_a_b", "plugin_a_b_"]


def test_what_raises_in_a_test_of_an_author_is_a_finding(beside: Path) -> None:
    (beside / "raising.py").write_text(WELL_MADE + ROGUES["raises"])
    from flexdoctor.chain import diagnose  # noqa: PLC0415

    (finding,) = run_plugin("raising:CHECK", samples.HEALTHY)
    assert (finding.status, finding.code) == ("crashed", "FD004")
    assert exit_code(diagnose(samples.HEALTHY, ())) == 0
