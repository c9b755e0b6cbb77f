# What scripts/demo shows of each forwarding mode, and the promises that it checks. Sourced, never run.
#
# The caller has the lab up, nginx running, and `tidegate`, `show` and `promise` defined; LAB, MODE and REQUESTS are set.

url() { if [[ $1 == *:* ]]; then printf 'http://[%s]/' "$1"; else printf 'http://%s/' "$1"; fi; }
get() { at client curl -gsS --max-time 10 "$(url "$1")"; }

fetch() { # fetch VIP: asks REQUESTS times, counts answers by server in FIRST and SECOND
    local answers
    answers=$(for ((n = 0; n < REQUESTS; n++)); do get "$1" || say "no answer"; done)
    sort <<<"$answers" | uniq -c
    FIRST=$(grep -c 'server 1' <<<"$answers" || true)
    SECOND=$(grep -c 'server 2' <<<"$answers" || true)
}
balanced() { ((FIRST + SECOND == REQUESTS && FIRST * 10 >= SECOND * 15 && FIRST * 10 <= SECOND * 25)); }

# Who has asked on a port since the last call of forget, as the servers believe.
clients_of_port() { cat "$LAB"/server?/access.log | awk -v port="$1" '$2 == port { print $1 }' | sort | uniq -c; }
only_clients() { ! clients_of_port "$1" | awk '{ print $2 }' | grep -qvE "$2"; }
forget() { truncate -s 0 "$LAB"/server?/access.log; }

# set_up SERVICE ADDRESS-PREFIX: runs on both servers what `tidegate server-setup` prints.
set_up() {
    local server
    say "\$ tidegate server-setup --service $1      (what it prints runs on both servers; its commands:)"
    tidegate server-setup --config "$LAB/demo.yaml" --service "$1" --server "${2}1" >"$LAB/server-setup"
    grep -vE '^(#|$|set -e|done|server=|for|    found|    \[|\[ -n)' "$LAB/server-setup" | sed 's/^/    /'
    for server in 1 2; do
        tidegate server-setup --config "$LAB/demo.yaml" --service "$1" --server "$2$server" >"$LAB/server-setup"
        at "server$server" sh "$LAB/server-setup"
    done
}

CAPTURES=()
# watch_for HOST INTERFACE NAME FILTER: captures frames; `frames NAME` counts them.
watch_for() {
    beside "$1" "$LAB/$3.tcpdump" tcpdump -nn --immediate-mode -i "$2" -U -w "$LAB/$3.pcap" "$4"
    CAPTURES+=($!)
    until_true 10 "tcpdump" grep -q 'listening on' "$LAB/$3.tcpdump"
}
frames() { tcpdump -nnr "$LAB/$1.pcap" 2>/dev/null | wc -l; }
frames_reach() { (($(frames "$1") >= $2)); }
unwatch() {
    kill "${CAPTURES[@]}"
    CAPTURES=()
}
outbound_packets() { show services --json | jq -e "map(select(.name == \"$1\"))[0].outbound_packets"; }

# replies_pass_by SERVICE VIP: fetches, and promises that no answer passes the gateway.
replies_pass_by() {
    local service=$1 vip=$2
    watch_for gateway wan0 gateway-wan "src host $vip and tcp"
    watch_for client direct1 direct1 "src host $vip and tcp"
    watch_for client direct2 direct2 "src host $vip and tcp"
    fetch "$vip"
    promise "all answered, about two of server 1 for each one of server 2, as the weights say" balanced
    until_true 10 "replies in the captures" frames_reach direct1 $((REQUESTS * 2))
    until_true 10 "replies in the captures" frames_reach direct2 $((REQUESTS))
    say "frames from $vip on the servers' own way: $(($(frames direct1) + $(frames direct2))); on the gateway's wan: $(frames gateway-wan)"
    passed_by() { (($(frames gateway-wan) == 0)) && (($(outbound_packets "$service") == 0)); }
    promise "no reply passed the gateway, and it counted no outbound packet" passed_by
    unwatch
}

figure() {
    cat <<'FIGURE'
                       wan                    lan
    client --------------- [ gateway ] ------------- switch --+-- server1  10.0.0.11  fd00::11  weight 2
    203.0.113.1              .2  10.0.0.1                     +-- server2  10.0.0.12  fd00::12  weight 1
    2001:db8:1::1           ::2  fd00::1                             |
      |                                                              |
      +-------------- the servers' own way to the client ------------+
FIGURE
}

figure_fullnat() {
    figure
    cat <<'FIGURE'

    FULLNAT  203.0.113.100:80, [2001:db8:1::100]:80 -> 8080
             servers see 10.0.0.200-203, fd00::200-203, and answer through the gateway
    DR       203.0.113.101:80
             servers see the client, and answer by their own way
FIGURE
}
figure_nat() {
    figure
    cat <<'FIGURE'

    NAT      203.0.113.102:80, [2001:db8:1::102]:80 -> 8080
             servers see the client, and answer through the gateway, their default route
FIGURE
}
figure_dr() {
    figure
    cat <<'FIGURE'

    DR       203.0.113.101:80, [2001:db8:1::101]:80
             servers see the client, have the VIP on lo, and answer by their own way
FIGURE
}
figure_tun() {
    figure
    cat <<'FIGURE'

    TUN      203.0.113.103:80, [2001:db8:1::103]:80
             servers take the client's packets out of a tunnel, and answer by their own way
FIGURE
}

show_fullnat() {
    show_fullnat_of 203.0.113.100 '^10\.0\.0\.20[0-3]$'
    show_fullnat_of 2001:db8:1::100 '^fd00::20[0-3]$'
    show_dr_of web-direct 10.0.0.1 203.0.113.101 '^203\.0\.113\.1$'
}

show_fullnat_of() { # show_fullnat_of VIP CLIENT-PATTERN
    title "FULLNAT: $REQUESTS pages from $(url "$1")"
    forget
    fetch "$1"
    promise "all answered, about two of server 1 for each one of server 2, as the weights say" balanced
    say "who the servers believe has asked (nginx's access logs):"
    clients_of_port 8080
    promise "the servers saw local addresses of the gateway only" only_clients 8080 "$2"
}

show_nat() {
    show_nat_of web-nat 10.0.0.1 203.0.113.102 '^203\.0\.113\.1$'
    show_nat_of web-nat6 fd00::1 2001:db8:1::102 '^2001:db8:1::1$'
}
show_nat_of() { # show_nat_of SERVICE ADDRESS-PREFIX VIP CLIENT-PATTERN
    title "NAT: $REQUESTS pages from $(url "$3")"
    set_up "$1" "$2"
    watch_for server1 lan0 server1-lan "host $3 and tcp"
    watch_for client direct1 direct1 tcp
    forget
    fetch "$3"
    promise "all answered, about two of server 1 for each one of server 2, as the weights say" balanced
    say "who the servers believe has asked on port 8080:"
    clients_of_port 8080
    promise "the servers saw the client itself" only_clients 8080 "$4"
    untouched() { (($(frames server1-lan) == 0)) && (($(frames direct1) == 0)) && (($(outbound_packets "$1") > REQUESTS * 3)); }
    promise "no packet with the VIP on the servers' link, and every answer passed the gateway" untouched "$1"
    unwatch
}

show_dr() {
    show_dr_of web-direct 10.0.0.1 203.0.113.101 '^203\.0\.113\.1$'
    show_dr_of web-direct6 fd00::1 2001:db8:1::101 '^2001:db8:1::1$'
}
show_dr_of() { # show_dr_of SERVICE ADDRESS-PREFIX VIP CLIENT-PATTERN
    title "DR: $REQUESTS pages from $(url "$3")"
    set_up "$1" "$2"
    forget
    replies_pass_by "$1" "$3"
    say "who the servers believe has asked:"
    clients_of_port 80
    promise "the servers saw the client itself" only_clients 80 "$4"
}

show_tun() {
    show_tun_of web-tunnel 10.0.0.1 203.0.113.103 '^203\.0\.113\.1$' 'ip proto 4'
    show_tun_of web-tunnel6 fd00::1 2001:db8:1::103 '^2001:db8:1::1$' 'ip6 proto 41'
}
show_tun_of() { # show_tun_of SERVICE ADDRESS-PREFIX VIP CLIENT-PATTERN TUNNEL-FILTER
    title "TUN: $REQUESTS pages from $(url "$3")"
    tunnel_ends "$1" "$2" "$3"
    watch_for server1 lan0 tunnel "$5"
    forget
    replies_pass_by_and_tunnel "$@"
    say "who the servers believe has asked:"
    clients_of_port 80
    promise "the servers saw the client itself" only_clients 80 "$4"
}
replies_pass_by_and_tunnel() {
    replies_pass_by "$1" "$3"
    say "a packet on server 1's link:"
    tcpdump -nnvr "$LAB/tunnel.pcap" -c 1 2>/dev/null | sed 's/^/    /'
    promise "packets came to server 1 in a tunnel" frames_reach tunnel $((REQUESTS * 2))
}

# tunnel_ends SERVICE ADDRESS-PREFIX VIP: as `tidegate server-setup` says, where the kernel has tunnels; else a small
# program does the kernel's part on a TUN device.
tunnel_ends() {
    local server
    if at server1 ip link add tg-probe type ipip local 10.0.0.11 remote any 2>/dev/null; then
        at server1 ip link del tg-probe
        set_up "$1" "$2"
        return
    fi
    say "this kernel has no tunnel modules: on each server a small program unwraps packets onto a TUN device"
    for server in 1 2; do
        if ! at "server$server" ip link show dev tg0 >/dev/null 2>&1; then
            beside "server$server" "$LAB/tunnel-end$server.log" "$TIDEGATE_TUNNEL_END"
            until_true 10 "the TUN device" at "server$server" ip link set tg0 up
            # Answers leave by another interface than the one that packets come out of.
            at "server$server" sysctl -qw net.ipv4.conf.tg0.rp_filter=2
        fi
        at "server$server" ip address add "$3" dev tg0
    done
}
