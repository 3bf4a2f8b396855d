#!/bin/bash
# SPDX-License-Identifier: MIT

source $(dirname "$0")/launcher_lib.sh

pre_launch

_PSI_J_PROCESS_COUNT="$1"
shift
export _PSI_J_PROCESS_COUNT

# The nodes share the folder of the node file. oarsh sets what the job is on each node.
_PSI_J_ENV="$PSIJ_NODEFILE.env"
export -p | grep -Ev '^declare -x (OAR_|OARPY_|HOSTNAME=|SSH_|TMPDIR=)' >"$_PSI_J_ENV"
_PSI_J_COMMAND="$(printf '%q ' "$@")"

PIDS=""
INDEX=0
while read -r NODE; do
    INDEX=$((INDEX + 1))
    SCRIPT="source $(printf %q "$_PSI_J_ENV"); cd $(printf %q "$PWD") || exit 1"
    SCRIPT="$SCRIPT; export _PSI_J_PROCESS_INDEX_=$INDEX; exec $_PSI_J_COMMAND"
    oarsh "$NODE" bash -c "$(printf %q "$SCRIPT")" \
        1>>$_PSI_J_STDOUT 2>>$_PSI_J_STDERR <$_PSI_J_STDIN &
    PIDS="$PIDS $!"
done <"$PSIJ_NODEFILE"

_PSI_J_FAILED_EC=0
for PID in $PIDS; do
    set +e
    wait $PID
    _PSI_J_EC=$?
    set -e
    if [ "$_PSI_J_EC" != "0" ]; then
        log "Pid $PID failed with $_PSI_J_EC"
        _PSI_J_FAILED_EC=$_PSI_J_EC
    fi
done
rm -f "$_PSI_J_ENV"

log "All completed"

post_launch

echo "_PSI_J_LAUNCHER_DONE"
exit $_PSI_J_FAILED_EC
