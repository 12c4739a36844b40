#!/usr/bin/env bash
# scripts/slurm on a one-machine Slurm of our own: three array tasks at once, one of them killed while it writes and
# requeued, and a dependent job that seals. The bytes must be those of a single run.
. "$(dirname "$0")/../cli/common.sh"
for program in slurmctld slurmd munged sbatch; do
  command -v $program >/dev/null || skip "$program is not installed (scripts/install-deps.sh full)"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
host=$(hostname -s) port=$((20000 + $$ % 20000))
export SLURM_CONF=$WORK/slurm.conf CHECKPOINT=$WORK/checkpoint OUT=$WORK/cluster TIERS=base,fp4 FP4=nibble CKPT_ID=cluster-test
mkdir -p "$WORK/state" "$WORK/spool" "$WORK/bin" "$WORK/munge" "$WORK/home"
chmod 0755 "$WORK"
chmod 0711 "$WORK/munge"

# --- the cluster ---
stop() {
  timeout 10 scancel --full --signal=KILL --user root 2>/dev/null
  timeout 10 scancel --user root 2>/dev/null
  for name in slurmctld slurmd munged; do
    [ -e "$WORK/$name.pid" ] && kill "$(cat "$WORK/$name.pid")" 2>/dev/null
  done
  sleep 1
  rm -rf "$WORK"
}
trap stop EXIT
head -c 1024 /dev/urandom >"$WORK/munge.key" && chmod 0400 "$WORK/munge.key"
cat >"$SLURM_CONF" <<CONF
ClusterName=planesmith
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$WORK/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$WORK/state
SlurmdSpoolDir=$WORK/spool
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmdPidFile=$WORK/slurmd.pid
SlurmctldLogFile=$WORK/slurmctld.log
SlurmdLogFile=$WORK/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=1
DependencyParameters=kill_invalid_depend
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
munged --force --key-file="$WORK/munge.key" --socket="$WORK/munge/socket" --pid-file="$WORK/munged.pid" \
  --log-file="$WORK/munged.log" --seed-file="$WORK/munge.seed" 2>"$WORK/munged.err" || { cat "$WORK/munged.err"; fail "munged does not start"; finish; }
slurmctld -c && slurmd -c || { fail "Slurm does not start"; finish; }

# until SECONDS COMMAND...: waits for it to succeed.
within() {
  local seconds=$1 i; shift
  for ((i = 0; i < 5 * seconds; ++i)); do "$@" && return 0; sleep 0.2; done
  return 1
}
idle() { sinfo -h -o %T 2>/dev/null | grep -q idle; }
within 30 idle || { fail "the node does not come up"; tail -5 "$WORK/slurmctld.log" "$WORK/slurmd.log"; finish; }

# --- the work ---
expect 0 make-checkpoint -o "$CHECKPOINT" --layers 6 --experts 8 --hidden 1024 --intermediate 512 --progress none
expect 0 build-planescache "$CHECKPOINT" --out "$WORK/single/planescache" --store "$WORK/single/packs" --tiers $TIERS \
  --ckpt-id $CKPT_ID --progress none

# Stops task 1 while it writes, the first time it runs; it then waits to be killed.
cat >"$WORK/bin/build-planescache" <<SHIM
#!/usr/bin/env bash
case "\$*" in *--dry-run*) exec "$BIN/build-planescache" "\$@" ;; esac
if [ "\${SLURM_ARRAY_TASK_ID:-}" = 1 ] && [ ! -e "$WORK/stopped" ]; then
  "$BIN/build-planescache" "\$@" &
  until [ -n "\$(find "$OUT" -name 'layer*.tmp' 2>/dev/null)" ] || ! kill -0 \$! 2>/dev/null; do :; done
  kill -STOP \$! 2>/dev/null && touch "$WORK/stopped"
  wait; sleep 600
fi
exec "$BIN/build-planescache" "\$@"
SHIM
chmod +x "$WORK/bin/build-planescache"
export PATH=$WORK/bin:$PATH HOME=$WORK/home
cd "$WORK" || exit 1
script=$SOURCE/scripts/slurm/regenerate.sbatch
array=$(sbatch --parsable --array=0-2 "$script") || { fail "sbatch refuses the array"; finish; }
seal=$(sbatch --parsable --dependency=afterok:"$array" "$script") || fail "sbatch refuses the dependent job"

within 60 test -e "$WORK/stopped" || fail "task 1 was not caught while writing"
expect 0 scontrol requeue "${array}_1"
gone() { [ -z "$(squeue -h 2>/dev/null)" ]; }
within 300 gone || { fail "jobs are left"; squeue; }
grep -q '^export VLLM_MOE_W2_CKPT_ID=' "slurm-$seal.out" 2>/dev/null || { fail "the dependent job did not seal"; tail -n 5 slurm-*.out; }
diff -r "$WORK/single" "$OUT" || fail "the array's files differ from a single run's"
finish
