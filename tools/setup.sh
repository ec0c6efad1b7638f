#!/bin/sh
# Makes the virtual environment with pinned dependencies. Usage: setup.sh PYTHON VENV
set -eu
python="$1"
venv="$2"

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: Python 3.11 or newer is needed; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
    echo "       Name another one with: make PYTHON=/path/to/python3.11 setup" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    echo "setup: this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2
    exit 1
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "setup: installing pinned dependencies into $venv (once)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel cython
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[lab,net,web,dev]'
