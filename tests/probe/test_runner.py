"""Whatever the patient does, the runner comes home in bounded time and memory, with the right story and no orphan."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import patients
import pytest

from flexdoctor.checks.live_run import examine
from flexdoctor.facts import Facts, LiveFacts, LiveStage, TargetFacts
from flexdoctor.findings import Finding
from flexdoctor.probe.runner import PROBE, LiveOptions, run_live
from flexdoctor.serialise import from_json, to_json

IMPORT = ("python", "torch", "torch_npu", "autoload", "devices")
Run = Callable[..., LiveFacts]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the real probe on a torch of a few lines."""
    monkeypatch.chdir(tmp_path)

    def go(code: str, stages: tuple[str, ...] = IMPORT, **options: object) -> LiveFacts:
        patients.make_torch(tmp_path, code, monkeypatch)
        facts = run_live(Path(sys.executable), LiveOptions("cpu", stages=stages, **options))  # type: ignore[arg-type]
        assert from_json(LiveFacts, json.loads(json.dumps(to_json(facts)))) == facts
        return facts

    return go


def stage(live: LiveFacts, name: str) -> LiveStage:
    found = live.find(name)
    assert found is not None
    return found


def judged(live: LiveFacts) -> dict[str | None, Finding]:
    facts = Facts(target=TargetFacts("environment", "here", (), machine_examined=False), live=live)
    return {finding.code: finding for finding in examine(facts)}


GOOD = "__version__ = '9.9'\n__file__ = '/x/torch/__init__.py'\ndef get_num_threads(): return 1\n"


def test_a_torch_that_can_be_imported_gives_no_fault(run: Run) -> None:
    live = run(GOOD)
    assert [(item.name, item.status) for item in live.stages] == [
        ("python", "passed"),
        ("torch", "passed"),
        ("torch_npu", "skipped"),
        ("autoload", "skipped"),
        ("devices", "passed"),
    ]
    assert live.device == "cpu"
    assert stage(live, "torch").values["version"] == "9.9"
    assert {code for code, finding in judged(live).items() if finding.status == "fail"} == set()
    assert live.survivors == live.stuck == live.closed == ()


def test_segfault_at_import_names_signal_stage_and_line(run: Run, tmp_path: Path) -> None:
    live = run("import ctypes\nprint('before', flush=True)\nctypes.string_at(0)\n")
    died = stage(live, "torch")
    assert died.status == "died"
    assert died.death is not None
    assert (died.death.how, died.death.name) == ("signal", "SIGSEGV")
    assert [(Path(frame.path).name, frame.line) for frame in died.death.stack][1] == ("__init__.py", 3)
    assert stage(live, "devices").status == "blocked"
    finding = judged(live)["FD405"]
    assert finding.title.en == "import torch died of SIGSEGV"
    assert any(str(tmp_path) in (item.path or "") for item in finding.evidence)


@pytest.mark.parametrize("loader", ["PyDLL", "CDLL"])
def test_a_hang_in_c_is_ended_by_the_limit_of_the_stage_and_shows_where(run: Run, loader: str) -> None:
    # PyDLL keeps the lock of the interpreter while it hangs: no Python code could end that.
    begin = time.monotonic()
    live = run(f"import ctypes\nctypes.{loader}(None).pause()\n", stage_limits={"torch": 1.5})
    assert time.monotonic() - begin < 30
    hung = stage(live, "torch")
    assert hung.status == "timed_out"
    assert hung.death is not None
    assert hung.death.stack[0].line == 2
    assert judged(live)["FD407"].title.en == "import torch did not end within 2 s"


def test_a_hang_that_ignores_every_signal_but_one_is_killed(run: Run, tmp_path: Path) -> None:
    code = f"""
        import os, signal
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGABRT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        open({str(tmp_path / "pids")!r}, "a").write(f"{{os.getpid()}}\\n")
        signal.pause()
    """
    live = run(code, stage_limits={"torch": 1.0})
    assert stage(live, "torch").status == "timed_out"
    pids = patients.recorded_pids(tmp_path / "pids")
    assert pids
    assert all(patients.is_gone(pid) for pid in pids)


def test_the_time_in_all_ends_a_stage_and_says_so(run: Run) -> None:
    live = run("import time\ntime.sleep(600)\n", timeout=2.0)
    finding = judged(live)["FD407"]
    assert finding.title.en.endswith(": 2 s in all were over")
    assert finding.title.zh.endswith("总时限 2 秒已到")


def test_a_fork_that_gets_away_is_found_and_killed(run: Run, tmp_path: Path) -> None:
    # Twice forked, in a session of its own, its streams still open: its parent is gone when the stage ends.
    code = f"""
        import os, signal
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open({str(tmp_path / "pids")!r}, "a").write(f"{{os.getpid()}}\\n")
                signal.pause()
            os._exit(0)
        os.wait()
        {GOOD.replace(chr(10), chr(10) + "        ")}
    """
    live = run(code, stages=("python", "torch"))
    assert stage(live, "torch").status == "passed"
    pids = patients.recorded_pids(tmp_path / "pids")
    assert len(pids) == 1
    assert all(patients.is_gone(pid) for pid in pids)
    assert [line.split()[0] for line in live.survivors] == [str(pids[0])]
    assert judged(live)["FD409"].severity == "warning"


def test_a_fork_that_hangs_with_its_parent_is_killed_too(run: Run, tmp_path: Path) -> None:
    code = f"""
        import os, signal
        os.fork()
        open({str(tmp_path / "pids")!r}, "a").write(f"{{os.getpid()}}\\n")
        signal.pause()
    """
    live = run(code, stage_limits={"torch": 1.5})
    assert stage(live, "torch").status == "timed_out"
    pids = patients.recorded_pids(tmp_path / "pids")
    assert len(pids) == 2
    assert all(patients.is_gone(pid) for pid in pids)


def test_a_gigabyte_on_stdout_is_counted_and_not_kept(run: Run) -> None:
    tracemalloc.start()
    live = run(f"import os\nfor _ in range(1024):\n    os.write(1, b'x' * 1048576)\n{GOOD}", stages=("python", "torch"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stage(live, "torch").status == "passed"
    assert live.stdout_bytes == 1024 * 1024 * 1024
    assert peak < 4 * 1024 * 1024
    assert judged(live)["FD412"].title.en == "the run wrote 1024 MiB to stdout"


def test_a_kill_from_outside_is_put_down_to_memory_only_as_likely(run: Run) -> None:
    live = run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    finding = judged(live)["FD406"]
    assert finding.title.en == "import torch was killed by SIGKILL, most likely for want of memory"


def test_the_kernel_kills_for_memory_and_its_counter_proves_it(run: Run) -> None:
    root = patients.memory_cgroup()
    if root is None:
        pytest.skip("no memory limit can be set here")
    folder = root / f"flexdoctor-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(64 * 1024 * 1024))
        code = f"""
            import os
            open({str(folder / "cgroup.procs")!r}, "w").write(str(os.getpid()))
            hoard = [b"x" * 1048576 for _ in range(4096)]
        """
        live = run(code)
        died = stage(live, "torch")
        assert died.death is not None
        assert (died.death.name, died.death.out_of_memory) == ("SIGKILL", True)
        assert "as the kernel's counter says" in judged(live)["FD406"].title.en
    finally:
        folder.rmdir()


def test_memory_that_python_cannot_get_is_an_exception_like_others(run: Run) -> None:
    live = run("raise MemoryError('no room')\n")
    assert stage(live, "torch").errors[0].type == "MemoryError"


def test_invalid_utf8_is_shown_and_harms_nothing(run: Run) -> None:
    code = "import os\nos.write(2, b'\\xff\\xfe bad \\x1b[31mred\\n')\nraise RuntimeError('\\udcff lone')\n"
    live = run(code)
    failed = stage(live, "torch")
    assert failed.errors[0].message == "? lone"
    assert failed.output[-1] == "\ufffd\ufffd bad red"
    json.dumps(to_json(live)).encode("utf-8")
    finding = judged(live)["FD403"]
    assert finding.title.en.startswith("import torch failed with an error that flexdoctor does not know: RuntimeError")


@pytest.mark.parametrize("code", [0, 7])
def test_os_exit_is_a_silent_end(run: Run, code: int) -> None:
    live = run(f"import os\nos.write(2, b'last words\\n')\nos._exit({code})\n")
    died = stage(live, "torch")
    assert died.death is not None
    assert (died.death.how, died.death.number) == ("exit", code)
    assert died.output == ("last words",)
    assert judged(live)["FD408"].title.en == (
        f"import torch ended the process with exit code {code}, without an exception"
    )


@pytest.mark.parametrize(
    ("code", "kind"), [("import sys; sys.exit(3)", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt")]
)
def test_an_import_that_leaves_by_exception_is_a_failure_of_its_stage(run: Run, code: str, kind: str) -> None:
    live = run(code)
    assert stage(live, "torch").status == "failed"
    assert stage(live, "torch").errors[0].type == kind


def test_closed_descriptors_lose_nothing_of_the_report(run: Run) -> None:
    live = run(f"import os, time\nos.closerange(0, 256)\ntime.sleep(0.6)\n{GOOD}", stages=("python", "torch"))
    assert stage(live, "torch").status == "passed"
    assert live.closed == ("stdout in torch", "stderr in torch")
    assert judged(live)["FD411"].severity == "warning"


def test_an_exception_without_text_is_described(run: Run) -> None:
    code = "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\nraise Odd()\n"
    assert stage(run(code), "torch").errors[0].message == "<no text: ValueError>"


def test_a_chain_is_told_from_its_first_cause(run: Run) -> None:
    code = """
        try:
            raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
        except ImportError as error:
            raise RuntimeError("Failed to load the backend extension: torch_npu.") from error
    """
    live = run(code)
    assert [error.type for error in stage(live, "torch").errors] == ["ImportError", "RuntimeError"]
    assert "FD121" in judged(live)["FD402"].title.en


def test_a_crash_after_the_last_stage_is_a_warning_of_its_own(run: Run) -> None:
    code = f"import atexit, ctypes\natexit.register(lambda: ctypes.string_at(0))\n{GOOD}"
    live = run(code, stages=("python", "torch"))
    assert stage(live, "torch").status == "passed"
    finding = judged(live)["FD413"]
    assert finding.severity == "warning"
    assert finding.title.en.endswith("SIGSEGV")


def scripted(folder: Path, **ends: str) -> Path:
    """Return a probe whose stages all pass, but for some that do this line."""
    script = folder / "script.py"
    lines = [f"def do_{name}(patient):\n    {line}\n    return {{}}\n" for name, line in ends.items()]
    table = ", ".join(f"{name!r}: do_{name}" for name in ends)
    text = PROBE.read_text().replace("RUN: dict", "RUN_BEFORE: dict")
    new = "\n".join(
        ["def fine(patient):\n    return {}\n", *lines, f"RUN = {{**dict.fromkeys(STAGES, fine), {table}}}\n\n"]
    )
    script.write_text(text.replace("# --- the run ---", f"{new}# --- the run ---"))
    return script


def test_after_a_death_the_stages_that_do_not_need_it_still_run(tmp_path: Path) -> None:
    crash = "os.kill(os.getpid(), 11)"
    script = scripted(tmp_path, compiled_backward=crash, gqa=crash)
    live = run_live(Path(sys.executable), LiveOptions("cpu", script=script))
    statuses = {item.name: item.status for item in live.stages}
    assert statuses.pop("compiled_backward") == "died"
    assert statuses.pop("gqa") == "died"
    assert set(statuses.values()) == {"passed"}
    assert "alibi" in statuses


def test_a_run_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    names = ("causal", "sliding_window", "gqa", "dynamic_length", "captured", "document_mask", "alibi")
    script = scripted(tmp_path, **dict.fromkeys(names, "os._exit(0)"))
    live = run_live(Path(sys.executable), LiveOptions("cpu", script=script))
    assert [stage(live, name).status for name in names] == ["died"] * 5 + ["not_reached"] * 2
    finding = judged(live)["FD414"]
    assert "5 processes had died before" in finding.title.en
    assert "此前已有 5 个进程崩溃" in finding.title.zh


def test_noise_that_looks_like_a_report_is_not_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\npath = sys.argv[sys.argv.index('--report') + 1]\n"
        'open(path, \'w\').write(\'{"event": "end"}\\n[1, 2]\\n\\nnull\\n"x"\\n{"event": "end", "stage": "no such"}\\n'
        '{"event": "start", "stage": "python"}\\n{"event": "end", "stage": "py\')\n'
    )
    live = run_live(Path(sys.executable), LiveOptions("cpu", script=script, stages=("python",)))
    assert [(item.name, item.status) for item in live.stages] == [("python", "died")]


def test_an_interpreter_that_cannot_be_started_is_a_finding(tmp_path: Path) -> None:
    live = run_live(tmp_path / "python", LiveOptions("cpu"))
    assert live.not_started
    assert judged(live)["FD401"].title.en.endswith("No such file or directory")


def test_secrets_and_home_do_not_leave(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    live = run(
        "import os\nhome, token = os.environ['HOME'], os.environ['HF_TOKEN']\n"
        "raise RuntimeError(f'https://me:pw@host/x {token} {home}/a')\n"
    )
    assert stage(live, "torch").errors[0].message == "https://***@host/x *** ~/a"
    assert str(tmp_path) not in json.dumps(to_json(live))


@contextlib.contextmanager
def doctor_at_work(tmp_path: Path, scratch: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a live run on a torch that waits for ever; yields the doctor and the number of the waiting process."""
    package = tmp_path / "patient" / "torch"
    package.mkdir(parents=True)
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    (package / "__init__.py").write_text(
        f"import os, signal\nopen({str(pipe)!r}, 'w').write(str(os.getpid()))\nsignal.pause()\n"
    )
    code = (
        "import sys; from pathlib import Path; from flexdoctor.probe.runner import run_live, LiveOptions;"
        "run_live(Path(sys.executable), LiveOptions('cpu'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "TMPDIR": str(scratch)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as doctor:
        yield doctor, patients.announced_pid(pipe)


def test_a_terminated_doctor_takes_its_children_and_its_folder_along(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with doctor_at_work(tmp_path, scratch) as (doctor, pid):
        doctor.send_signal(signal.SIGTERM)
        assert doctor.wait(timeout=30) == 128 + signal.SIGTERM
    assert patients.is_gone(pid)
    assert list(scratch.iterdir()) == []


def test_a_killed_doctor_takes_the_probe_along(tmp_path: Path) -> None:
    with doctor_at_work(tmp_path, tmp_path) as (doctor, pid):
        doctor.kill()
    assert patients.is_gone(pid)


@pytest.mark.parametrize("keep", [False, True])
def test_the_cache_is_a_new_one_unless_the_users_is_asked_for(
    run: Run, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/the/users")
    code = "import os\n__version__ = os.environ['TORCHINDUCTOR_CACHE_DIR'] + os.environ.get('TRITON_CACHE_DIR', '-')\n"
    live = run(code, stages=("python", "torch"), keep_cache=keep)
    version = stage(live, "torch").values["version"]
    assert (version == "/the/users-") is keep
    assert live.cache == ("the user's" if keep else "temporary")
    assert keep or not Path(version.partition("torchinductor_cache_dir")[0]).exists()


def test_what_the_run_leaves_lying_about_goes_with_it(run: Run, tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()} | {"patient"}
    live = run(f"open('kernel_meta', 'w').write('x')\n{GOOD}", stages=("python", "torch"))
    assert stage(live, "torch").status == "passed"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_folder_of_the_user_shadows_as_it_does_for_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients.make_torch(tmp_path, GOOD, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "patient")
    options = LiveOptions("cpu", stages=("torch",))
    assert stage(run_live(Path(sys.executable), options), "torch").values["version"] == "9.9"
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(tmp_path / "patient")
    assert stage(run_live(Path(sys.executable), options), "torch").values["version"] == "9.9"


def test_a_relative_interpreter_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    live = run_live(Path("python"), LiveOptions("cpu", stages=("python",)))
    assert stage(live, "python").status == "passed"


def test_the_probe_works_when_copied_alone(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "p.py"
    copy.parent.mkdir()
    copy.write_bytes(PROBE.read_bytes())
    report = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-I", str(copy), "--report", str(report), "--stages", "python", "--device", "cpu"],
        check=False, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    events = [json.loads(line)["event"] for line in report.read_text().splitlines()]
    assert events == ["start", "end", "done"]
