"""Launchers' variables, as their documents give them: which process of which node."""

from __future__ import annotations

import pytest

from flexdoctor.nodes import NodeIdentity
from flexdoctor.readers.launcher import launchers, read_identity

TORCHRUN = {
    "RANK": "9",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "ROLE_RANK": "9",
    "TORCHELASTIC_RUN_ID": "none",
}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_PROCID": "17",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_NODELIST": "node[01-04]",
    "SLURMD_NODENAME": "node03",
}
SLURM_IDENTITY = NodeIdentity("node03", 17, 1, 2, "Slurm", "Slurm 4711", 4, "node[01-04]")

CASES = [
    pytest.param({}, NodeIdentity("here"), id="no launcher (Ansible, ssh)"),
    pytest.param(TORCHRUN, NodeIdentity("here", 9, 1, 1, "torchrun", None, 2), id="torchrun, its run id left at none"),
    pytest.param(
        {**TORCHRUN, "TORCHELASTIC_RUN_ID": "train-7"},
        NodeIdentity("here", 9, 1, 1, "torchrun", "torchrun train-7", 2),
        id="torchrun",
    ),
    pytest.param(SLURM, SLURM_IDENTITY, id="srun"),
    pytest.param(
        {**SLURM, **TORCHRUN},
        NodeIdentity("node03", 9, 1, 1, "torchrun", "Slurm 4711", 2),
        id="torchrun inside srun: ranks of torchrun, run and host of Slurm",
    ),
    pytest.param({**SLURM, "PMI_RANK": "17", "PMI_SIZE": "32"}, SLURM_IDENTITY, id="srun --mpi=pmi2 sets PMI_RANK too"),
    pytest.param(
        {**SLURM, "SLURM_ARRAY_JOB_ID": "4700"},
        NodeIdentity("node03", 17, 1, 2, "Slurm", "Slurm 4700", 4, "node[01-04]"),
        id="the tasks of an array are one run",
    ),
    pytest.param(
        {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
        NodeIdentity("here", 3, 0, None, "Open MPI"),
        id="Open MPI",
    ),
    pytest.param(
        {**SLURM, "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
        NodeIdentity("node03", 3, 0, None, "Open MPI", "Slurm 4711"),
        id="mpirun in a Slurm allocation",
    ),
    pytest.param(
        {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
        NodeIdentity("here", 5, 1, None, "MPICH"),
        id="MPICH with Hydra",
    ),
    pytest.param({"PMI_RANK": "5"}, NodeIdentity("here", 5, None, None, "MPICH"), id="MPICH, rank alone"),
    pytest.param(
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "4", "NODE_NAME": "worker-4"},
        NodeIdentity("worker-4", 4, 0, 4, "Kubernetes"),
        id="indexed Job, node name passed down",
    ),
    pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, NodeIdentity("here", launcher="Kubernetes"), id="DaemonSet"),
    pytest.param(
        {"NODE_NAME": "built-in"}, NodeIdentity("here"), id="a CI server's NODE_NAME is not that of Kubernetes"
    ),
    pytest.param(
        {"RAY_JOB_ID": "02000000", "RAY_RAYLET_PID": "31"},
        NodeIdentity("here", launcher="Ray", run="Ray 02000000"),
        id="a task of Ray",
    ),
    pytest.param(
        {"RAY_JOB_ID": "02000000", "RANK": "2", "LOCAL_RANK": "0", "NODE_RANK": "1"},
        NodeIdentity("here", 2, 0, 1, "Ray", "Ray 02000000"),
        id="a worker of Ray Train",
    ),
    pytest.param(
        {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "a"},
        NodeIdentity("here", 2, launcher="torch.distributed"),
        id="variables set by hand",
    ),
    pytest.param(
        {"SLURM_PROCID": "not a number", "SLURM_JOB_ID": "1", "SLURM_STEP_NUM_NODES": "-3"},
        NodeIdentity("here", launcher="Slurm", run="Slurm 1"),
        id="what is no number tells nothing",
    ),
]


@pytest.mark.parametrize(("variables", "expected"), CASES)
def test_who_this_is(variables: dict[str, str], expected: NodeIdentity) -> None:
    assert read_identity(variables, "here") == expected


def test_a_machine_without_a_name_has_a_stand_in() -> None:
    assert read_identity({}, "").host == "unnamed-host"


def test_every_row_says_where_it_is_from() -> None:
    assert {row.name for row in launchers()} >= {"torchrun", "Slurm", "Open MPI", "MPICH", "Kubernetes", "Ray"}
    assert all(row.source and row.date for row in launchers())
