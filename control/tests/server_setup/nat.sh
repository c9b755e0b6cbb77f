#!/bin/sh
# Tidegate: makes this machine a real server of the service `nat`, mode nat.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in 10.0.0.11 10.0.0.12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: 10.0.0.11 10.0.0.12" >&2; exit 1; }

# Answers must pass the gateway, which puts the VIP back into them: it is the way to every client.
# A client on the servers' own link is answered directly all the same, and refuses the answer: see
# `hairpin_snat` of the service.
ip route replace default via 10.0.0.1
