#!/bin/sh
# Tidegate: makes this machine a real server of the service `dr6`, mode dr.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in fd00::11 fd00::12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: fd00::11 fd00::12" >&2; exit 1; }

# Packets arrive with the VIP as their destination, and it is the source of the answers.
# IPv6 answers neighbour solicitations on the address's own interface only. nodad: the gateway
# has the address too; preferred_lft 0: connections of this machine's own take another source.
ip -6 address replace 2001:db8:1::20/128 dev lo nodad preferred_lft 0
