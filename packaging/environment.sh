#!/bin/bash
# Make or renew a virtual environment with this checkout in it: environment.sh FOLDER LIST...
#
# Each LIST names exact versions (constraints.txt, constraints-dev.txt): they are installed as they stand, so nothing is
# searched. The folder is only made where there is none that works.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 python=${PYTHON:-python3}
shift

fail() {
    echo "environment.sh: $*" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "no '$python' found (Debian: apt-get install python3; or make PYTHON=...)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old: Python 3.11 or newer is needed (make PYTHON=...)"

works() {
    "$folder/bin/python" -m pip --version >/dev/null 2>&1
}

make_with_ensurepip() {
    "$python" -c 'import venv, ensurepip' 2>/dev/null && "$python" -m venv --clear "$folder"
}

# Debian keeps ensurepip in a package of its own; root may install it.
install_ensurepip() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing python3-venv" >&2
    apt-get update -qq </dev/null && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends python3-venv </dev/null >/dev/null
}

# A pip outside can fill an environment without one.
make_with_pip_from_outside() {
    "$python" -m pip --version >/dev/null 2>&1 || return 1
    "$python" -m venv --clear --without-pip "$folder" &&
        "$python" -m pip --quiet --python "$folder/bin/python" install pip
}

works || make_with_ensurepip || { install_ensurepip && make_with_ensurepip; } || make_with_pip_from_outside ||
    fail "no virtual environment can be made: apt-get install python3-venv"

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
install() {
    "$folder/bin/python" -m pip install -qq --no-deps "$@" </dev/null
}
for list; do
    echo "installing $(grep -c == "$list") packages of $list into $folder ($("$folder/bin/python" --version))"
    install --requirement "$list"
done
# what builds it is in the first list
install --no-build-isolation --editable .
