# What `scripts/demo ecmp` and `scripts/demo failover` show: two gateways on one network. Sourced, never run.
#
# As for scripts/lib/modes.sh. The files of each gateway are those of configs/ecmp and configs/failover.

readonly ANNOUNCED=198.51.100.100 SHARED=203.0.113.100 DOWNLOADS=8

figure_ecmp() {
    cat <<'FIGURE'
                                          +-- gateway1   203.0.113.2   tidegate, BIRD
    client 192.0.2.2 --- router .1 -------+-- gateway2   203.0.113.3   tidegate, BIRD
                         203.0.113.1      +-- server1    203.0.113.11  nginx
                         BIRD, ECMP       +-- server2    203.0.113.12  nginx

    DR, mh   198.51.100.100: announced by both gateways, by BGP over the exception path
FIGURE
}
figure_failover() {
    cat <<'FIGURE'
                                          +-- gateway1   203.0.113.2   tidegate, keepalived
    client 192.0.2.2 --- router .1 -------+-- gateway2   203.0.113.3   tidegate, keepalived
                         203.0.113.1      +-- server1    203.0.113.11  nginx
                                          +-- server2    203.0.113.12  nginx

    FULLNAT  VIP 203.0.113.100 and local address 203.0.113.200: on the gateway that keepalived gives them to
FIGURE
}

network_pair() {
    local host number
    for host in client router gateway1 gateway2 server1 server2; do host_up "$host"; done
    at router sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1
    at router ip link add net type bridge mcast_snooping 0
    at router ip address add 203.0.113.1/24 dev net
    at router ip link set net up
    link client wan0 router outside
    at router ip address add 192.0.2.1/24 dev outside
    at client ip address add 192.0.2.2/24 dev wan0
    at client ip route add default via 192.0.2.1
    for host in gateway1 gateway2 server1 server2; do
        link "$host" net0 router "$host"
        at router ip link set "$host" master net
    done
    for number in 1 2; do
        at "server$number" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
        at "server$number" ip address add "203.0.113.1$number/24" dev net0
        at "server$number" ip address add $ANNOUNCED/32 dev lo
        at "server$number" ip route add default via 203.0.113.1
        nginx_on "server$number" "server $number"
        # Long enough for a gateway to go and come back meanwhile.
        sed -i 's|listen 8080;|location /large { limit_rate 300k; } listen 8080;|' "$LAB/server$number/nginx.conf"
        head -c 4000000 /dev/zero >"$LAB/server$number/pages/large"
        at "server$number" nginx -p "$LAB/server$number" -c "$LAB/server$number/nginx.conf" -e "$LAB/server$number/error.log" -s reload
    done
    say "namespaces $(namespace client), ... made; nginx runs on both servers"
}

pair_show() { # pair_show NUMBER VIEW...
    local number=$1
    shift
    tidegate show "$@" --socket "$LAB/api$number.sock"
}
pair_answers() { pair_show "$1" workers --json; }

# gateway_up NUMBER: the gateway of the mode's folder.
gateway_up() {
    sed "s|/run/tidegate/api.sock|$LAB/api$1.sock|" "$ROOT/configs/$MODE/gw$1.yaml" >"$LAB/gw$1.yaml"
    beside "gateway$1" "$LAB/gateway$1.log" "$TIDEGATE_BIN" run --config "$LAB/gw$1.yaml"
    GATEWAY[$1]=$!
    # The shell need not say that it has been killed.
    disown "$!"
    until_true 30 "the API of gateway $1" pair_answers "$1"
}
declare -A GATEWAY DAEMON

bird_up() { # bird_up HOST FILE
    sed 's|^log syslog all;|log stderr all;|' "$ROOT/configs/ecmp/$2" >"$LAB/$2"
    beside "$1" "$LAB/$2.log" bird -f -c "$LAB/$2" -s "$LAB/$2.ctl"
    DAEMON[$1]=$!
}
keepalived_up() { # keepalived_up NUMBER
    beside "gateway$1" "$LAB/keepalived$1.log" keepalived --dont-fork --log-console --no-syslog --vrrp \
        --use-file "$ROOT/configs/failover/keepalived-gw$1.conf" --pid "$LAB/keepalived$1.pid" --vrrp_pid "$LAB/vrrp$1.pid"
}
# end_of PID: waits for the end of what has been told to end.
end_of() { until_true 10 "the end of process $1" gone "$1"; }
gone() { ! kill -0 "$1"; }

ways() { at router ip route show $ANNOUNCED; }
way_by() { ways | grep -q "via $1 "; }
no_way_by() { ! way_by "$1"; }
connections_of() { pair_show "$1" connections --json | grep -c '"client"' || true; }

show_ecmp() {
    title "Both gateways announce the VIP while it can be served"
    bird_up router bird-router.conf
    local number file
    for number in 1 2; do
        gateway_up "$number"
        bird_up "gateway$number" "bird-gw$number.conf"
    done
    until_true 30 "the way by gateway 1" way_by 203.0.113.2
    until_true 30 "the way by gateway 2" way_by 203.0.113.3
    say "\$ ip route show $ANNOUNCED      (on the router)"
    ways
    say "\$ ip address show dev tg0      (at gateway 1)"
    at gateway1 ip -brief address show dev tg0
    at gateway1 ip -brief address show dev lo

    title "$DOWNLOADS long downloads; a gateway is killed, and comes back"
    local curls=()
    for ((number = 1; number <= DOWNLOADS; number++)); do
        beside client "$LAB/curl$number.log" curl -sS --fail --max-time 120 -o "$LAB/body$number" http://$ANNOUNCED/large
        curls+=($!)
    done
    until_true 20 "all downloads to begin" all_begun
    say "connections: $(connections_of 1) by gateway 1, $(connections_of 2) by gateway 2"
    promise "the router spreads connections over both" both_have_some
    kill -KILL "${GATEWAY[1]}"
    end_of "${GATEWAY[1]}"
    promise "within seconds the router has no way by gateway 1 left" until_true 20 "the way to go" no_way_by 203.0.113.2
    kill "${DAEMON[gateway1]}"
    end_of "${DAEMON[gateway1]}"
    promise "no download has moved to another server, or broken" all_running "${curls[@]}"
    gateway_up 1
    bird_up gateway1 bird-gw1.conf
    until_true 30 "the way by gateway 1" way_by 203.0.113.2
    say "gateway 1 is back"
    for number in "${curls[@]}"; do wait "$number" || die "a download has failed"; done
    for ((number = 1; number <= DOWNLOADS; number++)); do
        file=$LAB/body$number
        [[ $(stat -c %s "$file") == 4000000 ]] || die "a download is incomplete"
    done
    say "  kept: all downloads are complete: the servers that they began with have sent all of them"
}
all_begun() {
    local number
    for ((number = 1; number <= DOWNLOADS; number++)); do [[ -s $LAB/body$number ]] || return 1; done
}
all_running() {
    local pid
    for pid; do kill -0 "$pid" 2>/dev/null || return 1; done
}
both_have_some() { (($(connections_of 1) > 0 && $(connections_of 2) > 0)); }

served() { at client curl -sS --fail --max-time 1 http://$SHARED/; }
has_vip() { at "gateway$1" ip address show dev tg0 | grep -q "$SHARED/32"; }
owner() { at router ip neighbour show $SHARED dev net | grep -o 'lladdr [^ ]*' | cut -d' ' -f2; }
owned_by() { served && [[ $(owner) == "$(at "gateway$1" cat /sys/class/net/net0/address)" ]]; }

show_failover() {
    title "Nobody has the VIP yet, and nobody answers for it"
    local number
    for number in 1 2; do gateway_up "$number"; done
    promise "no page comes" not_served
    title "keepalived on both"
    for number in 1 2; do keepalived_up "$number"; done
    promise "gateway 1 gets the addresses and serves" until_true 20 "a page" owned_by 1
    at gateway1 ip -brief address show dev tg0
    say "\$ curl http://$SHARED/      (at the client)"
    served
    title "Gateway 1 is killed"
    local begun=$SECONDS
    kill -KILL "${GATEWAY[1]}"
    end_of "${GATEWAY[1]}"
    promise "gateway 2 takes the VIP and the local address over" until_true 20 "a page by gateway 2" owned_by 2
    say "that took $((SECONDS - begun)) s"
    served
    title "Gateway 1 comes back"
    gateway_up 1
    promise "it has the higher priority, and gets them again" until_true 20 "a page by gateway 1" owned_by 1
}
not_served() { ! served 2>/dev/null; }
