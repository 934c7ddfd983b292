#!/usr/bin/env bash
# Start a Ray cluster on machines that can reach each other by ssh, the first one being the head:
#
#     examples/cluster/start_nodes.sh 10.0.0.1 10.0.0.2 10.0.0.3
#     agentfly train examples/cluster/gpu_nodes.toml          # on any of them
#     examples/cluster/start_nodes.sh --stop 10.0.0.1 10.0.0.2 10.0.0.3
#
# AGENTFLY_ENV is the virtual environment with agentfly[ray], at the same place on all machines.
set -euo pipefail
env=${AGENTFLY_ENV:-$HOME/agentfly/.venv}
port=6379

if [ "${1:-}" = --stop ]; then
  shift
  for machine in "$@"; do ssh "$machine" "$env/bin/ray stop"; done
  exit
fi

head=$1
shift
ssh "$head" "OMP_WAIT_POLICY=passive RAY_worker_niceness=0 $env/bin/ray start --head --port $port"
for machine in "$@"; do
  # Nodes of a cluster with authentication need the token that its head has made.
  ssh "$head" 'cat ~/.ray/auth_token 2>/dev/null || true' |
    ssh "$machine" 'mkdir -p ~/.ray && umask 077 && cat > ~/.ray/auth_token'
  ssh "$machine" "OMP_WAIT_POLICY=passive RAY_worker_niceness=0 $env/bin/ray start --address $head:$port"
done
