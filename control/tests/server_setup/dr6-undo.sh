#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `dr6`, mode dr.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# Not on the wrong machine.
server= interface=
for address in fd00::11 fd00::12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: fd00::11 fd00::12" >&2; exit 1; }

if ip -6 -o address show dev lo 2>/dev/null | grep -qF ' 2001:db8:1::20/128 '; then
    ip -6 address del 2001:db8:1::20/128 dev lo
fi
