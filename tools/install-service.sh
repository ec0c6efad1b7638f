#!/bin/sh
# Writes the systemd unit of Implicast nodes. Usage: install-service.sh BIN
# As root for the machine (/etc/systemd/system, user `implicast`), else for oneself (~/.config/systemd/user).
# DESTDIR is put before every path, and nothing but files is touched then.
set -eu
bin="$(cd "$1" && pwd)"
here="$(dirname "$0")/../packaging/systemd"
dest="${DESTDIR:-}"
if [ "$(id -u)" = 0 ] && [ "${SCOPE:-system}" = system ]; then
    folder="$dest/etc/systemd/system"
    target=multi-user.target
    system='User=implicast\
Group=implicast\
ProtectSystem=strict\
ProtectHome=read-only\
PrivateTmp=yes\
PrivateDevices=yes\
ProtectKernelTunables=yes\
ProtectControlGroups=yes\
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\
RestrictSUIDSGID=yes\
LockPersonality=yes'
    control="systemctl"
    if [ -z "$dest" ] && ! id implicast >/dev/null 2>&1; then
        useradd --system --home-dir /var/lib/implicast --shell /usr/sbin/nologin implicast
    fi
else
    folder="$dest${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"
    target=default.target
    system=""
    control="systemctl --user"
fi
mkdir -p "$folder"
sed -e "s|@BIN@|$bin|" -e "s|@TARGET@|$target|" -e "s|^@SYSTEM@\$|$system|" "$here/implicast@.service" >"$folder/implicast@.service"
echo "install-service: wrote $folder/implicast@.service"
if [ -z "$dest" ] && command -v systemctl >/dev/null 2>&1; then
    $control daemon-reload 2>/dev/null || echo "install-service: systemd does not run here; it reads the unit when it does" >&2
fi
echo "install-service: next, docs/how-to/run-as-a-service.md: a folder for the node, then $control enable --now implicast@NAME"
