#!/bin/sh
# Tidegate: makes this machine a real server of the service `ipip-6in4`, mode tun.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in 10.0.0.11 10.0.0.12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: 10.0.0.11 10.0.0.12" >&2; exit 1; }

# The tunnel's end. Any address of any gateway may send: only the server's own is fixed. Without the
# module the server answers ICMP protocol unreachable.
modprobe sit
ip -d link show dev tg-sit 2>/dev/null | grep -q " local $server " ||
    ip link add tg-sit type sit mode ip6ip local "$server" remote any
ip link set tg-sit up

# Packets arrive with the VIP as their destination, and it is the source of the answers.
# IPv6 answers neighbour solicitations on the address's own interface only. nodad: the gateway
# has the address too; preferred_lft 0: connections of this machine's own take another source.
ip -6 address replace 2001:db8:1::31/128 dev tg-sit nodad preferred_lft 0

# A packet of a client has 1480 bytes in this tunnel. Whoever sends more is told so by ICMP. Where
# networks lose ICMP, let this machine announce shorter TCP segments on the way to its clients:
#     ip route change default via ROUTER advmss 1420
