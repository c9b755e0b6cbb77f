#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `nat6`, mode nat.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# Not on the wrong machine.
server= interface=
for address in fd00::11 fd00::12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: fd00::11 fd00::12" >&2; exit 1; }

# The default route that was here before is not known: add it, or have the system do so.
if [ -n "$(ip -6 route show default via fd00::1)" ]; then
    ip -6 route del default via fd00::1
fi

sysctl -qw "net/ipv6/conf/$interface/accept_ra_defrtr=1"
