#!/usr/bin/env bash
#SBATCH --job-name=agentfly
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --time=12:00:00
# One Ray node per Slurm node, and the run on the first of them; everything ends with the job:
#
#     sbatch examples/cluster/slurm.sh examples/cluster/gpu_nodes.toml
#
# After a job that ended early, `sbatch slurm.sh gpu_nodes.toml --resume` goes on with its run.
set -euo pipefail
env=${AGENTFLY_ENV:-$HOME/agentfly/.venv}
port=6379
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export OMP_WAIT_POLICY=passive RAY_worker_niceness=0

# All nodes share the secret of this job's cluster.
export RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

srun --nodes=1 --ntasks=1 --nodelist="$head" \
  "$env/bin/ray" start --head --port "$port" --num-cpus "$SLURM_CPUS_PER_TASK" --block &
sleep 20
srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$head" \
  "$env/bin/ray" start --address "$head:$port" --num-cpus "$SLURM_CPUS_PER_TASK" --block &
sleep 20
srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap "$env/bin/agentfly" train "$@"
