#!/bin/sh
# Tidegate: this machine is no longer a real server of the service `ipip6`, mode tun.
# Run it as root on the server, after the gateway has stopped sending to it. It may run again.
set -e

if ip -6 -o address show dev tg-ip6tnl 2>/dev/null | grep -qF ' 2001:db8:1::30/128 '; then
    ip -6 address del 2001:db8:1::30/128 dev tg-ip6tnl
fi

# The tunnel's end goes with its last VIP.
if ip link show dev tg-ip6tnl >/dev/null 2>&1 &&
    [ -z "$(ip -o address show dev tg-ip6tnl scope global)" ]; then
    ip link del tg-ip6tnl
fi
