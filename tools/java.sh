#!/bin/sh
# Spark needs Java 17 or newer: found, or installed from Debian, or asked for in one clear sentence.
set -eu

major() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

good() {
    [ -n "$1" ] && [ -x "$1" ] && [ "$(major "$1")" -ge 17 ] 2>/dev/null
}

good "${JAVA_HOME:-/nonexistent}/bin/java" && exit 0
good "$(command -v java || true)" && exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo"; else as="none"; fi
    if [ "$as" != none ]; then
        echo "setup: installing openjdk-17-jre-headless (Spark needs Java 17 or newer)"
        $as apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $as apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null
        exit 0
    fi
fi
echo "setup: Spark needs Java 17 or newer and none was found." >&2
echo "       Install one (on Debian: sudo apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it, then run make again." >&2
exit 1
