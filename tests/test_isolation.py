"""The patient is never imported, and nothing is opened that has no business being open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import builders
import pytest

WATCH = """
import json, sys
opened = []
def watch(event, arguments):
    if event == "import" and arguments[0].split(".")[0] in ("torch", "torch_npu", "triton"):
        opened.append(["import", arguments[0]])
    elif event.startswith("socket.") or event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork"):
        opened.append([event, repr(arguments[:2])])
    elif event in ("exec", "compile") and SITE in str(getattr(arguments[0], "co_filename", arguments[-1])):
        opened.append([event, str(arguments)])
sys.argv = ["flexdoctor", "check", *ARGUMENTS, "--format", "json"]
from flexdoctor.cli import main
sys.addaudithook(watch)
try:
    main()
except SystemExit as end:
    print(json.dumps({"opened": opened, "code": end.code}), file=sys.stderr)
"""


def watched(site: Path, *arguments: str) -> dict[str, object]:
    code = WATCH.replace("SITE", repr(str(site))).replace("ARGUMENTS", repr(list(arguments)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stderr.splitlines()[-1])
    result["root_cause"] = json.loads(done.stdout)["root_cause"]
    return result


def test_no_module_of_the_target_is_imported_and_no_socket_opened(site: Path) -> None:
    builders.install_healthy(site)
    assert watched(site, "--site-packages", str(site)) == {"opened": [], "code": 0, "root_cause": None}


SHIMS = {
    "raises": "raise ImportError('libhccl.so: cannot open shared object file')\n",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "hangs": "import time\nwhile True:\n    time.sleep(60)\n",
}


@pytest.mark.parametrize("shim", SHIMS, ids=list(SHIMS))
def test_a_torch_that_cannot_be_imported_changes_nothing(tmp_path: Path, shim: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    site = next((tmp_path / "v/lib").glob("python3.*")) / "site-packages"
    builders.install_healthy(site)
    sound = watched(site, "--python", str(tmp_path / "v"))
    for module in ("torch", "torch_npu", "triton"):
        (site / module / "__init__.py").write_text(SHIMS[shim])
    # Sizes of recorded files must fit, or the doctor rightly says that something was overwritten.
    broken = watched(site, "--python", str(tmp_path / "v"))
    assert broken["opened"] == sound["opened"] == []
    assert broken["root_cause"] == sound["root_cause"]
