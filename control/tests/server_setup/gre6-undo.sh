#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `gre6`, mode tun.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

if ip -o address show dev tg-ip6gre-csum 2>/dev/null | grep -qF ' 203.0.113.51/32 '; then
    ip address del 203.0.113.51/32 dev tg-ip6gre-csum
fi

# The tunnel's end goes with its last VIP.
if ip link show dev tg-ip6gre-csum >/dev/null 2>&1 &&
    [ -z "$(ip -o address show dev tg-ip6gre-csum scope global)" ]; then
    ip link del tg-ip6gre-csum
fi

# ARP as the kernel has it by itself, unless another /32 is left, which may be another service's VIP.
if ! ip -4 -o address show | grep -q '/32 '; then
    sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0
    sysctl -qw net.ipv4.conf.lo.arp_ignore=0 net.ipv4.conf.lo.arp_announce=0
fi
