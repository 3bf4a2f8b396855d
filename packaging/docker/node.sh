#!/bin/sh
# Take the host key and the server's public key out of /keys, then be an sshd that lets in by key only.
set -eu
umask 077
mkdir -p /root/.ssh
cp /keys/client.pub /root/.ssh/authorized_keys
cp "/keys/$(hostname)" /etc/ssh/host_key
exec /usr/sbin/sshd -D -e \
    -o HostKey=/etc/ssh/host_key -o PermitRootLogin=prohibit-password -o PasswordAuthentication=no -o MaxStartups=100
