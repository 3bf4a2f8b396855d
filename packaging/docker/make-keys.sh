#!/bin/sh
# make-keys FOLDER NODE...: a key pair for log-ins, a host key for each node, and known_hosts naming them all.
# What exists is kept, so that it can run again.
set -eu
folder=$1
shift
umask 077
mkdir -p "$folder"
cd "$folder"

[ -e client ] || ssh-keygen -q -t ed25519 -N '' -C oarpy -f client
: >known_hosts.new
for node in "$@"; do
    [ -e "$node" ] || ssh-keygen -q -t ed25519 -N '' -C "$node" -f "$node"
    echo "$node $(cut -d ' ' -f 1,2 "$node.pub")" >>known_hosts.new
done
mv known_hosts.new known_hosts
