#!/bin/sh
# A launcher without Python: it asks for hosts of the cluster that is free first, runs a command, and gives them back.
#
#     launcher.sh HOSTS WALLTIME COMMAND [ARGUMENT...]
#
# The command gets the names of the hosts as its last arguments. `oarsub --launcher "launcher.sh 2 600 ./work.sh"` has the
# cluster run this; else oarnegotiate carries its lines. A job that is there already (OAR_JOB_ID) is gone on with: what
# the command has done before must not hurt when it is done again.
set -eu
hosts=$1 walltime=$2
shift 2

if [ -z "${OAR_LAUNCHER-}" ]; then
    pipes=$(mktemp -d)
    mkfifo "$pipes/said" "$pipes/heard"
    oarnegotiate <"$pipes/said" >"$pipes/heard" &
    exec >"$pipes/said" <"$pipes/heard"
    rm -r "$pipes"
fi

say() { printf '%s\n' "$1"; }

# The value of a key that is a word or a number.
value() { printf '%s\n' "$line" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# Of the profiles in a view: the first cluster with no busy step, else the first one.
choose() {
    profiles=$(printf '%s\n' "$line" | sed 's/.*"changes":{//' | tr ']' '\n' | sed -n 's/^,\{0,1\}"\([^"*]*\)":\[/\1 /p')
    free=$(printf '%s\n' "$profiles" | sed -n '/,/!s/ .*//p' | head -n 1)
    printf '%s\n' "${free:-$(printf '%s\n' "$profiles" | sed -n '1s/ .*//p')}"
}

# The work is done beside the conversation, which has to give signs of life meanwhile.
work() {
    names=$(printf '%s\n' "$line" | sed 's/.*"names":{\([^}]*\)}.*/\1/; s/"[^"]*":\[//g; s/[],]/ /g; s/"//g')
    # shellcheck disable=SC2086 # names of hosts are words
    "$@" $names >&2 </dev/null || echo "$1 failed with exit status $?" >&2
    say '{"message":"done"}'
}

if [ -n "${OAR_JOB_ID-}" ]; then
    say "{\"message\":\"attach\",\"job\":$OAR_JOB_ID}"
else
    say '{"message":"subscribe"}'
fi

chosen='' working=''
while read -r line; do
    case $line in
        '{"message":"subscribed"'*)
            OAR_JOB_ID=$(value job)
            export OAR_JOB_ID
            echo "OAR_JOB_ID=$OAR_JOB_ID" >&2
            ;;
        '{"message":"changeNotify"'*)
            if [ -z "$chosen" ]; then
                chosen=$(choose)
                say "{\"message\":\"request\",\"tag\":\"$chosen\",\"hosts\":{\"$chosen\":$hosts},\"walltime\":$walltime}"
            else
                say "{\"message\":\"keep\",\"serial\":$(value serial)}"
            fi
            ;;
        '{"message":"attached"'*) chosen=$(value tag) && [ "$chosen" != null ] || chosen='' ;;
        '{"message":"startNotify"'*)
            if [ -z "$working" ]; then
                working=yes
                work "$@" &
            fi
            ;;
        '{"message":"ping"}') say '{"message":"pong"}' ;;
        '{"message":"refused"'*) printf '%s\n' "$line" >&2 && exit 1 ;;
        '{"message":"ended"'*) exit 0 ;;
    esac
done
exit 1
