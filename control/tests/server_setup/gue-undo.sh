#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `gue`, mode tun.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

if ip -o address show dev tg-ipip 2>/dev/null | grep -qF ' 203.0.113.40/32 '; then
    ip address del 203.0.113.40/32 dev tg-ipip
fi

# The tunnel's end goes with its last VIP.
if ip link show dev tg-ipip >/dev/null 2>&1 &&
    [ -z "$(ip -o address show dev tg-ipip scope global)" ]; then
    ip link del tg-ipip
fi

if ip -6 -o address show dev tg-sit 2>/dev/null | grep -qF ' 2001:db8:1::40/128 '; then
    ip -6 address del 2001:db8:1::40/128 dev tg-sit
fi

# The tunnel's end goes with its last VIP.
if ip link show dev tg-sit >/dev/null 2>&1 &&
    [ -z "$(ip -o address show dev tg-sit scope global)" ]; then
    ip link del tg-sit
fi

if ip fou show 2>/dev/null | grep -q '^port 6080 gue'; then
    ip fou del port 6080
fi

# ARP as the kernel has it by itself, unless another /32 is left, which may be another service's VIP.
if ! ip -4 -o address show | grep -q '/32 '; then
    sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0
    sysctl -qw net.ipv4.conf.lo.arp_ignore=0 net.ipv4.conf.lo.arp_announce=0
fi
