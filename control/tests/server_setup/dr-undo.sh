#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `dr`, mode dr.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

# Not on the wrong machine.
server= interface=
for address in 10.0.0.11 10.0.0.12; do
    found=$(ip -o address show to "$address" | awk '{ print $2; exit }')
    [ -z "$found" ] || { server=$address interface=$found; }
done
[ -n "$server" ] || { echo "this machine has none of: 10.0.0.11 10.0.0.12" >&2; exit 1; }

if ip -o address show dev lo 2>/dev/null | grep -qF ' 203.0.113.20/32 '; then
    ip address del 203.0.113.20/32 dev lo
fi

# 203.0.113.21 stays: it is a VIP of the service `dr-too` too.

# ARP as the kernel has it by itself, unless another /32 is left, which may be another service's VIP.
if ! ip -4 -o address show | grep -q '/32 '; then
    sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0
    sysctl -qw net.ipv4.conf.lo.arp_ignore=0 net.ipv4.conf.lo.arp_announce=0
fi

# Reverse path filter: back to what this machine gives a new interface.
sysctl -qw "net/ipv4/conf/$interface/rp_filter=$(sysctl -n net.ipv4.conf.default.rp_filter)"
