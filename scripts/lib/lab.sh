# The demo's network: a client, the gateway, a switch and two servers, each a network namespace. Sourced, never run.
#
# The caller sets LAB (a folder of its own) and ID (what makes names unique); lab_down removes all of it.

hosts() { printf 'client gateway switch server1 server2'; }
namespace() { printf 'tg%s-%s' "$ID" "$1"; }
at() { # at HOST COMMAND...
    local host=$1
    shift
    ip netns exec "$(namespace "$host")" "$@"
}

# beside HOST LOG COMMAND...: the same in the background, holding none of our files. $! is the command's own id.
beside() {
    local host=$1 log=$2
    shift 2
    ip netns exec "$(namespace "$host")" "$@" </dev/null >"$log" 2>&1 &
}

# link HOST INTERFACE HOST INTERFACE: a cable. The kernel leaves checksums and segmentation to a NIC, which here is
# none: net_af_packet would see half-made checksums and frames larger than the MTU. So all of that is switched off.
link() {
    ip link add "$2" netns "$(namespace "$1")" type veth peer name "$4" netns "$(namespace "$3")"
    local host interface
    while read -r host interface; do
        at "$host" ethtool -K "$interface" tx off tso off gso off gro off >/dev/null
        at "$host" ip link set "$interface" up
    done <<<"$1 $2"$'\n'"$3 $4"
}

host_up() { # host_up HOST: its namespace
    ip netns add "$(namespace "$1")"
    # IPv6 only where somebody answers to it, and there without waiting for addresses.
    at "$1" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 \
        net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    at "$1" ip link set lo up
}

lab_up() {
    local host server
    for host in $(hosts); do host_up "$host"; done
    # Servers are as strict about sources as many distributions have them: see what server-setup does about it.
    for host in server1 server2; do
        at "$host" sysctl -qw net.ipv4.conf.all.rp_filter=1
    done
    for host in client server1 server2; do
        at "$host" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0
    done
    at switch ip link add lan type bridge mcast_snooping 0
    at switch ip link set lan up

    link client wan0 gateway wan0
    link gateway lan0 switch gateway
    at client ip address add 203.0.113.1/24 dev wan0
    at client ip address add 2001:db8:1::1/64 dev wan0
    at switch ip link set gateway master lan
    for server in 1 2; do
        link "server$server" lan0 switch "server$server"
        at switch ip link set "server$server" master lan
        at "server$server" ip address add "10.0.0.1$server/24" dev lan0
        at "server$server" ip address add "fd00::1$server/64" dev lan0
        # The servers' own way to the client, past the gateway.
        link "server$server" out0 client "direct$server"
        at "server$server" ip address add "192.0.2.$((4 * server + 2))/30" dev out0
        at "server$server" ip address add "2001:db8:2:$server::2/64" dev out0
        at client ip address add "192.0.2.$((4 * server + 1))/30" dev "direct$server"
        at client ip address add "2001:db8:2:$server::1/64" dev "direct$server"
        at "server$server" ip route add default via "192.0.2.$((4 * server + 1))"
        at "server$server" ip route add default via "2001:db8:2:$server::1"
    done
}

# A real web server on each server, its access log naming who asked.
nginx_up() {
    local server
    for server in 1 2; do nginx_on "server$server" "server $server"; done
}
nginx_on() { # nginx_on HOST TEXT
    local root=$LAB/$1
    mkdir -p "$root/pages"
    say "Hello from $2." >"$root/pages/index.html"
    cat >"$root/nginx.conf" <<CONF
user root;
worker_processes 1;
pid $root/nginx.pid;
error_log $root/error.log;
events { worker_connections 1024; }
http {
    log_format who '\$remote_addr \$server_port \$status';
    access_log $root/access.log who;
    client_body_temp_path $root/tmp1; proxy_temp_path $root/tmp2; fastcgi_temp_path $root/tmp3;
    uwsgi_temp_path $root/tmp4; scgi_temp_path $root/tmp5;
    server { listen 8080; listen 80; listen [::]:8080; listen [::]:80; root $root/pages; }
}
CONF
    at "$1" nginx -p "$root" -c "$root/nginx.conf" -e "$root/error.log" </dev/null >"$root/nginx.log" 2>&1
}

# Ends what runs in our namespaces, by process id, and removes them and the folder.
lab_down() {
    local host name pids deadline
    for host in $(hosts) inside router outside gateway1 gateway2; do
        name=$(namespace "$host")
        [[ -e /run/netns/$name ]] || continue
        pids=$(ip netns pids "$name" 2>/dev/null || true)
        # shellcheck disable=SC2086
        [[ -z $pids ]] || kill $pids 2>/dev/null || true
        deadline=$((SECONDS + 5))
        while [[ -n $(ip netns pids "$name" 2>/dev/null) ]] && ((SECONDS < deadline)); do sleep 0.05; done
        pids=$(ip netns pids "$name" 2>/dev/null || true)
        # shellcheck disable=SC2086
        [[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf "$LAB"
}
