#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `nat`, mode nat.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# Not on the wrong machine.
server= interface=
for address in 10.0.0.11 10.0.0.12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: 10.0.0.11 10.0.0.12" >&2; exit 1; }

# The default route that was here before is not known: add it, or have the system do so.
if [ -n "$(ip route show default via 10.0.0.1)" ]; then
    ip route del default via 10.0.0.1
fi
