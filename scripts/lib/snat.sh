# What `scripts/demo snat` shows: hosts inside with no other way out, a router, and a server outside. Sourced, never run.
#
# As for scripts/lib/modes.sh; `inside` has twenty addresses, which stand for as many hosts.

readonly HOSTS=20 OUTSIDE=198.51.100.11 OUTSIDE6=2001:db8:3::11

figure_snat() {
    cat <<'FIGURE'
    hosts inside        lan            wan             router             outside
    10.0.0.21-40 ------------ [ gateway ] ---------------- . ------------------ 198.51.100.11
    fd00::21-40      10.0.0.1           203.0.113.2   203.0.113.1            2001:db8:3::11
                      fd00::1         2001:db8:1::2   2001:db8:1::1          nginx, dnsmasq

    SNAT     hosts inside are seen as 203.0.113.200-201, 2001:db8:1::200-201
FIGURE
}

network_snat() {
    local host number
    for host in inside gateway router outside; do host_up "$host"; done
    for host in inside router outside; do
        at "$host" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0
        # Three traceroutes ask for some errors at once.
        at "$host" sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
    done
    at router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    link inside in0 gateway lan0
    link gateway wan0 router wan0
    link router out0 outside wan0
    for ((number = 21; number < 21 + HOSTS; number++)); do
        at inside ip address add "10.0.0.$number/24" dev in0
        at inside ip address add "fd00::$number/64" dev in0
    done
    at router ip address add 203.0.113.1/24 dev wan0
    at router ip address add 2001:db8:1::1/64 dev wan0
    at router ip address add 198.51.100.1/24 dev out0
    at router ip address add 2001:db8:3::1/64 dev out0
    at outside ip address add $OUTSIDE/24 dev wan0
    at outside ip address add $OUTSIDE6/64 dev wan0
    at inside ip route add default via 10.0.0.1
    at inside ip route add default via fd00::1
    at outside ip route add default via 198.51.100.1
    at outside ip route add default via 2001:db8:3::1
    nginx_on outside outside
    beside outside "$LAB/dnsmasq.log" dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts \
        --user=root --pid-file= --bind-interfaces --listen-address=$OUTSIDE,$OUTSIDE6 --address=/example.test/192.0.2.99
    until_true 10 "dnsmasq" listens_for_names
    say "namespaces $(namespace inside), ... made; nginx and dnsmasq run outside"
}
listens_for_names() { at outside ss -Huln | grep -q ':53 '; }

show_snat() {
    show_snat_of 10.0.0. $OUTSIDE '203\.0\.113\.20[01]' 10.0.0.1 203.0.113.1
    show_snat_of fd00:: $OUTSIDE6 '2001:db8:1::20[01]' fd00::1 2001:db8:1::1
}

# Pages for each host, twice. HOSTS lines of `address outside` and host go to $LAB/seen.
fetch_as_each() { # fetch_as_each PREFIX SERVER
    local number
    : >"$LAB/seen"
    for ((number = 21; number < 21 + HOSTS; number++)); do
        for _ in 1 2; do
            truncate -s 0 "$LAB/outside/access.log"
            at inside curl -gsS --max-time 10 --interface "$1$number" -o /dev/null "$(url "$2")" || return 1
            until_true 10 "nginx's log" grep -q . "$LAB/outside/access.log"
            say "$(cut -d' ' -f1 "$LAB/outside/access.log") $1$number" >>"$LAB/seen"
        done
    done
}
seen_as() { ! cut -d' ' -f1 "$LAB/seen" | grep -qvE "^$1\$"; }
both_used() { (($(cut -d' ' -f1 "$LAB/seen" | sort -u | wc -l) == 2)); }
sticky() { (($(sort -u "$LAB/seen" | wc -l) == HOSTS)); }

show_snat_of() { # show_snat_of PREFIX SERVER LOCAL-PATTERN FIRST-HOP SECOND-HOP
    local host=${1}21 probe
    title "SNAT: $HOSTS hosts fetch two pages each from $(url "$2")"
    fetch_as_each "$1" "$2"
    say "pages by local address and host, as nginx outside has seen them:"
    sort "$LAB/seen" | uniq -c
    promise "the server saw local addresses of the gateway only" seen_as "$3"
    promise "both local addresses are used" both_used
    promise "each host was the same local address both times" sticky

    title "SNAT: dig, ping and traceroute from $host to $2"
    say "\$ dig @$2 www.example.test"
    at inside dig -b "$host" "@$2" +short +tries=1 +timeout=10 www.example.test | tee "$LAB/dig"
    promise "the name server outside answered" grep -qx 192.0.2.99 "$LAB/dig"
    say "\$ ping -c 3 $2"
    at inside ping -n -c 3 -i 0.2 -W 10 -I "$host" "$2" | tee "$LAB/ping" || true
    promise "each ping was answered" grep -q ' 0% packet loss' "$LAB/ping"
    for probe in '-U -p 33434' -I -T; do
        say "\$ traceroute $probe $2"
        # shellcheck disable=SC2086
        at inside traceroute -n -q 1 -w 10 -m 6 -s "$host" $probe "$2" | tee "$LAB/traceroute"
        promise "every hop is named by its own address" hops_are "$4" "$5" "$2"
    done
}
hops_are() { [[ "$(awk 'NR > 1 { print $2 }' "$LAB/traceroute" | xargs)" == "$*" ]]; }
