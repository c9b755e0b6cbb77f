#!/bin/sh
# Tidegate: makes this machine a real server of the service `gre6`, mode tun.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in fd00::11 fd00::12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: fd00::11 fd00::12" >&2; exit 1; }

# The VIP's ARP is the gateway's alone: answer only for addresses of the interface that was asked
# (arp_ignore 1), and never ask in the VIP's name (arp_announce 2). This comes before the VIP: one
# answer in between, and the router sends past the gateway for minutes.
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
sysctl -qw net.ipv4.conf.lo.arp_ignore=1 net.ipv4.conf.lo.arp_announce=2

# The tunnel's end. Any address of any gateway may send: only the server's own is fixed. Without the
# module the server answers ICMP protocol unreachable.
modprobe ip6_gre
ip -d link show dev tg-ip6gre-csum 2>/dev/null | grep -q " local $server " ||
    ip link add tg-ip6gre-csum type ip6gre icsum local "$server" remote any
ip link set tg-ip6gre-csum up

# Packets of clients come out of the tunnel, and their answers leave by another interface. A strict
# reverse path filter (1) would take that for forgery; 2 is content with any route to the client.
sysctl -qw net/ipv4/conf/tg-ip6gre-csum/rp_filter=2

# Packets arrive with the VIP as their destination, and it is the source of the answers.
ip address replace 203.0.113.51/32 dev tg-ip6gre-csum

# A packet of a client has 1452 bytes in this tunnel. Whoever sends more is told so by ICMP. Where
# networks lose ICMP, let this machine announce shorter TCP segments on the way to its clients:
#     ip route change default via ROUTER advmss 1412
