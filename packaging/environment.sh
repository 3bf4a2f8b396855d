#!/bin/bash
# Make or renew a virtual environment with this checkout in it: environment.sh FOLDER EXTRAS
#
# Versions come from constraints.txt. The folder is only made where there is none that works.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 extras=$2 python=${PYTHON:-python3}

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

# Both names: older pips read the first for build requirements too, newer ones the second.
export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_BUILD_CONSTRAINT="$PWD/constraints.txt"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
echo "installing .[$extras] into $folder"
"$folder/bin/python" -m pip install -qq --editable ".[$extras]" </dev/null
