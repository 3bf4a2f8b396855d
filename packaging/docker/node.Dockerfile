# A node: sshd and python3, as on any machine of a cluster, and the users' accounts.
FROM debian:12-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends openssh-server openssh-client python3 procps \
    && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
    && mkdir -p /run/sshd \
    && useradd --create-home --uid 1000 --shell /bin/bash alice

COPY --chmod=755 make-keys.sh /usr/local/bin/make-keys
COPY --chmod=755 node.sh /usr/local/bin/node
EXPOSE 22
ENTRYPOINT ["node"]
