#!/bin/sh
# Tidegate: makes this machine a real server of the service `dr`, mode dr.
# Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.
set -e

# Not on the wrong machine.
server= interface=
for address in 10.0.0.11 10.0.0.12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: 10.0.0.11 10.0.0.12" >&2; exit 1; }

# Packets of clients come from the gateway, and their answers may leave by another interface. A strict
# reverse path filter (1) would take that for forgery; 2 is content with any route to the client.
sysctl -qw "net/ipv4/conf/$interface/rp_filter=2"

# The VIP's ARP is the gateway's alone: answer only for addresses of the interface that was asked
# (arp_ignore 1), and never ask in the VIP's name (arp_announce 2). This comes before the VIP: one
# answer in between, and the router sends past the gateway for minutes.
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
sysctl -qw net.ipv4.conf.lo.arp_ignore=1 net.ipv4.conf.lo.arp_announce=2

# Packets arrive with the VIP as their destination, and it is the source of the answers.
ip address replace 203.0.113.20/32 dev lo
ip address replace 203.0.113.21/32 dev lo
