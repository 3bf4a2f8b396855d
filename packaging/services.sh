#!/bin/bash
# Install what the tests use of Debian: PostgreSQL 15 beside the embedded server, sshd, a browser, Slurm, MPI, and the
# web pages of OAR with the modules of Perl and PHP that they need. No service is started.
#
# As an ordinary user, or without apt, it only says what is missing: the tests that need it are then skipped.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/15/bin/postgres' >/dev/null || missing+=(postgresql-15)
PATH=$PATH:/usr/sbin command -v sshd >/dev/null || missing+=(openssh-server)
command -v ssh-keygen >/dev/null || missing+=(openssh-client)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
command -v php-cgi >/dev/null || missing+=(php-cgi php-pgsql)
perl -MCGI -e 1 2>/dev/null || missing+=(libcgi-pm-perl)
perl -MDBD::Pg -e 1 2>/dev/null || missing+=(libdbd-pg-perl)
perl -MAppConfig -e 1 2>/dev/null || missing+=(libappconfig-perl)
perl -MTie::IxHash -e 1 2>/dev/null || missing+=(libtie-ixhash-perl)
perl -MSort::Naturally -e 1 2>/dev/null || missing+=(libsort-naturally-perl)
command -v sbatch >/dev/null || missing+=(slurm-client)
PATH=$PATH:/usr/sbin command -v slurmctld >/dev/null || missing+=(slurmctld)
PATH=$PATH:/usr/sbin command -v slurmd >/dev/null || missing+=(slurmd)
PATH=$PATH:/usr/sbin command -v munged >/dev/null || missing+=(munge)
# unpacked, not installed: nobody needs a web server for it
pages=/usr/local/lib/oar-web-status
[ -e $pages/usr ] || missing+=(oar-web-status)
# 15 MB to fetch, 75 MB on the disk
command -v mpirun.openmpi >/dev/null || missing+=(openmpi-bin)
command -v mpirun.mpich >/dev/null || missing+=(mpich)
for shell in zsh fish groff; do command -v $shell >/dev/null || missing+=($shell); done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "services.sh: not installed here, tests that need them will be skipped: ${missing[*]}" >&2
    exit 0
fi

# Debian asks this program before it starts a service: 101 means no.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi
# The tests make their own servers: Debian's package need not make one.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi

echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
for package in "${missing[@]}"; do
    if [ "$package" = oar-web-status ]; then
        draft=$(mktemp -d)
        (cd "$draft" && apt-get download -qq $package >/dev/null 2>&1 && dpkg -x ./*.deb $pages) ||
            echo "services.sh: $package cannot be unpacked; tests that need it will be skipped" >&2
        rm -rf "$draft"
        continue
    fi
    apt-get install -y -qq --no-install-recommends "$package" </dev/null >/dev/null ||
        echo "services.sh: $package cannot be installed; tests that need it will be skipped" >&2
done
