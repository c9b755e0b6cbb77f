#!/bin/sh
# Tidegate: makes this machine a real server of the service `ipip6`, mode tun.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in fd00::11 fd00::12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: fd00::11 fd00::12" >&2; exit 1; }

# The tunnel's end. Any address of any gateway may send: only the server's own is fixed. Without the
# module the server answers ICMP protocol unreachable.
modprobe ip6_tunnel
ip -d link show dev tg-ip6tnl 2>/dev/null | grep -q " local $server " ||
    ip link add tg-ip6tnl type ip6tnl mode any local "$server" remote any
ip link set tg-ip6tnl up

# Packets of clients come out of the tunnel, and their answers leave by another interface. A strict
# reverse path filter (1) would take that for forgery; 2 is content with any route to the client.
sysctl -qw net/ipv4/conf/tg-ip6tnl/rp_filter=2

# Packets arrive with the VIP as their destination, and it is the source of the answers.
# IPv6 answers neighbour solicitations on the address's own interface only. nodad: the gateway
# has the address too; preferred_lft 0: connections of this machine's own take another source.
ip -6 address replace 2001:db8:1::30/128 dev tg-ip6tnl nodad preferred_lft 0

# A packet of a client has 1460 bytes in this tunnel. Whoever sends more is told so by ICMP. Where
# networks lose ICMP, let this machine announce shorter TCP segments on the way to its clients:
#     ip route change default via ROUTER advmss 1400
