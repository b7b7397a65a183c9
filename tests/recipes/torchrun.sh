#!/usr/bin/env bash
# torchrun: the environment of every node, as torchrun itself starts processes in it.
#
#   On every node, with the options that your training has (their --nproc-per-node may be what it likes):
#     bash torchrun.sh /shared/reports --nnodes=4 --node-rank=$NODE_RANK --master-addr=$MASTER_ADDR
#   Then, on any of them:
#     flexdoctor compare /shared/reports --expect 4
set -euo pipefail
reports=${1:?a folder that every node can write to}
shift

# One process of each node writes the report. A fault found is no reason for torchrun to end the other nodes:
# the verdict is the exit code of `flexdoctor compare`.
exec torchrun "$@" --no-python flexdoctor check --collect "$reports" --exit-zero
