# What `./scripts/bench outside` does. Sourced, never run.
#
#                      CPU 0                                     CPU 1 (CPU of the caller)
#   requests.pcap -> testpmd -- memif id 0 --> wan [ what is measured ] lan -- memif id 1 --> testpmd, which counts
#
# testpmd sends as fast as the ring takes packets, so that what is measured never waits, and counts what comes out. The
# CPU time of the one thread that forwards, over the packets that came out, is its cost; memif's copies are part of it, for
# testpmd's own MAC swap in the same place as well. A forwarder that polls an empty ring takes CPU time too, so a row is to
# be trusted only when the ring was full, and when both threads had their CPUs for themselves: the last column.
#
# The caller has common.sh, and sets TIDEGATE_BIN, CPU and HUGEPAGES.

DIR='' GENERATOR='' SUBJECT=''
readonly FLOWS_MOST=10000
# Its name differs from release to release.
readonly TESTPMD_THREAD='*-worker*1'

outside_can() {
    ((EUID == 0)) || die "outside needs root: sudo ./scripts/bench outside"
    (($(nproc --all) > 1)) || die "outside needs two CPUs: one generates, one is measured"
    command -v dpdk-testpmd >/dev/null || die "testpmd is missing: apt-get install dpdk-dev"
}

# Ended, if only in part: this shell has yet to be told.
gone() { [[ ! -e /proc/$1 || $(cut -d' ' -f3 "/proc/$1/stat") == Z ]]; }
# Ends what still runs, by process id, however this came to its end.
outside_end() {
    local pid
    # What can, ends in order, and removes its own folders.
    for pid in $SUBJECT $GENERATOR; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in $SUBJECT $GENERATOR; do
        until_true 5 "the end of process $pid" gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        rm -rf "/var/run/dpdk/macswap-$pid" # which a signal ends before it can do that
    done
    SUBJECT='' GENERATOR=''
    [[ -z $DIR ]] || rm -rf "$DIR" /var/run/dpdk/tidegate-bench-{generator,subject}-$$ # testpmd leaves its own
    DIR=''
}

memif() { printf 'net_memif%s,role=%s,id=%s,socket=%s/memif.sock,socket-abstract=no' "$2" "$1" "$2" "$DIR"; }

# testpmd NAME CPU ARGUMENTS...: starts it with its commands from the pipe $DIR/NAME.in; its main thread is on CPU 0.
testpmd() {
    local name=$1 cpu=$2 memory
    shift 2
    # Without hugepages, DPDK 22.11 has no `--in-memory`.
    memory=(--no-huge --no-shconf)
    [[ -z $HUGEPAGES ]] || memory=(--in-memory)
    stdbuf -oL dpdk-testpmd --lcores "0@0,1@$cpu" --main-lcore 0 --no-pci --no-telemetry --log-level=error "${memory[@]}" \
        -m 256 --file-prefix "tidegate-bench-$name-$$" "$@" <"$DIR/$name.in" >"$DIR/$name.log" 2>&1 &
}
prompts() { grep -q 'testpmd>' "$DIR/$1.log"; }
forwards() { grep -q 'forwards packets on' "$DIR/$1.log"; }

generator_up() { # generator_up CAPTURE
    [[ -p $DIR/generator.in ]] || mkfifo "$DIR/generator.in"
    : >"$DIR/generator.log"
    # A server of memif that ended in haste leaves its socket, and the next one cannot bind it.
    rm -f "$DIR/memif.sock"
    testpmd generator 0 --vdev "net_pcap0,rx_pcap=$1,infinite_rx=1" --vdev "$(memif server 0)" \
        --vdev "$(memif server 1)" --vdev net_pcap1,tx_pcap=/dev/null \
        -- -i --disable-link-check --forward-mode=io --total-num-mbufs=32768 --mbuf-size=512
    GENERATOR=$!
    exec 7>"$DIR/generator.in"
    until_true 20 "the generator" prompts generator || failed generator
}

# The log's end, and the script's.
failed() {
    tail -n 20 "$DIR/$1.log" >&2
    die "$1 does not do its part: see above"
}

reports() { (($(grep -c 'Accumulated' "$DIR/generator.log") > REPORTS)); }
# Asks the generator: OUT packets have come out of what is measured, LOST could not be sent to it.
ask_generator() {
    REPORTS=$(grep -c 'Accumulated' "$DIR/generator.log" || true)
    say "show fwd stats all" >&7
    until_true 20 "the generator's counters" reports || return 1
    read -r OUT LOST < <(tr -d '\r' <"$DIR/generator.log" | awk '
        /Forward statistics for port/ { port = $6 }
        port == 2 && $1 == "RX-packets:" { out = $2 }
        port == 1 && $1 == "TX-packets:" { lost = $4 }
        /Accumulated/ { port = -1 }
        END { printf "%.0f %.0f\n", out, lost }')
}
something_comes_out() { ask_generator && ((OUT > 0)); }

# thread_of PID PATTERN: the thread that forwards.
thread_of() {
    local comm
    for comm in "/proc/$1"/task/*/comm; do
        # shellcheck disable=SC2053
        if [[ $(cat "$comm") == $2 ]]; then
            dirname "$comm"
            return
        fi
    done
    return 1
}

cpu_time() { cut -d' ' -f1 "$1/schedstat"; }

# measure WHAT NAME THREAD: windows of a second of the process SUBJECT, whose log is $DIR/NAME.log; one row.
measure() {
    local what=$1 name=$2 subject generator window rows=() trust=yes
    local out lost cpu cpu_before wall wall_before sent sent_before
    subject=$(thread_of "$SUBJECT" "$3") || failed "$name"
    generator=$(thread_of "$GENERATOR" "$TESTPMD_THREAD") || failed generator
    say start >&7
    until_true 20 "packets out of $what" something_comes_out || failed "$name"
    for ((window = 0; window <= ${TIDEGATE_BENCH_WINDOWS:-8} + 1; window++)); do
        ask_generator || failed generator
        cpu=$(cpu_time "$subject") sent=$(cpu_time "$generator") wall=$(date +%s%N)
        # The first window only warms up.
        if ((window > 1)); then
            rows+=("$((cpu - cpu_before)) $((OUT - out)) $((wall - wall_before))")
            # What a ring refused shows that it was full.
            ((LOST > lost)) || trust='no: the generator is the slower one'
            if (((cpu - cpu_before) * 10 < (wall - wall_before) * 9 || (sent - sent_before) * 10 < (wall - wall_before) * 9)); then
                trust='no: others use the CPUs'
            fi
        fi
        out=$OUT lost=$LOST cpu_before=$cpu sent_before=$sent wall_before=$wall
        sleep 1
    done
    printf '%s\n' "${rows[@]}" | awk -v what="$what" -v trust="$trust" -v reference="${REFERENCE:-0}" '
        $2 > 0 { ns[++n] = $1 / $2; mpps += 1000 * $2 / $3 }
        END {
            if (n == 0) { print what ": no packets"; exit 1 }
            for (i = 2; i <= n; i++) for (j = i; j > 1 && ns[j] < ns[j - 1]; j--) { t = ns[j]; ns[j] = ns[j - 1]; ns[j - 1] = t }
            best = ns[1]
            ratio = reference > 0 ? sprintf("%.2f", best / reference) : "1.00"
            printf "%-34s %9.1f %8.1f %7.2f %9s  %s\n", what, best, ns[int((n + 1) / 2)], mpps / n, ratio, trust
        }' | tee "$DIR/row"
    grep -q ' [0-9]' "$DIR/row" || failed "$name"
}

subject_down() {
    kill -TERM "$SUBJECT" 2>/dev/null || true
    wait "$SUBJECT" 2>/dev/null || true
    rm -rf "/var/run/dpdk/macswap-$SUBJECT"
    SUBJECT=''
    # It may have ended with the other end of its memif already; nobody reads the pipe then.
    (trap '' PIPE; say quit >&7) 2>/dev/null || true
    wait "$GENERATOR" 2>/dev/null || true
    exec 7>&-
    GENERATOR=''
}

# testpmd in the place of the gateway.
measure_testpmd() { # measure_testpmd FORWARD-MODE
    generator_up "$DIR/requests-$FLOWS_MOST.pcap"
    [[ -p $DIR/subject.in ]] || mkfifo "$DIR/subject.in"
    : >"$DIR/subject.log"
    testpmd subject "$CPU" --vdev "$(memif client 0)" --vdev "$(memif client 1)" \
        -- -i --disable-link-check --forward-mode="$1" --total-num-mbufs=16384
    SUBJECT=$!
    exec 8>"$DIR/subject.in"
    until_true 20 "testpmd" prompts subject || failed subject
    say start >&8
    until_true 20 "testpmd's start" forwards subject || failed subject
    measure "testpmd $1" subject "$TESTPMD_THREAD"
    exec 8>&-
    subject_down
}

# Our own plainest forwarder.
has_ports() { (($(grep -c 'link up' "$DIR/macswap.log") == 2)); }
measure_macswap() {
    local hugepages=()
    generator_up "$DIR/requests-$FLOWS_MOST.pcap"
    [[ -z $HUGEPAGES ]] || hugepages=(--hugepages)
    "$(target_dir)/release/examples/macswap" --device "$(memif client 0)" --device "$(memif client 1)" --cpu "$CPU" \
        "${hugepages[@]}" >"$DIR/macswap.log" 2>&1 &
    SUBJECT=$!
    until_true 20 "our MAC swap" has_ports || failed macswap
    measure "MAC swap over our binding" macswap macswap
    subject_down
}

# The gateway.
answers() { "$TIDEGATE_BIN" show status --socket "$DIR/api.sock"; }
measure_gateway() { # measure_gateway MODE FLOWS
    local local_addresses='' pages=off
    [[ $1 == dr ]] || local_addresses=', local_addresses: dip'
    [[ -z $HUGEPAGES ]] || pages=256
    sed -e "s|/run/tidegate-bench|$DIR|; s|mode: fullnat, |mode: $1, |; s|, local_addresses: dip }|$local_addresses }|" \
        -e "s|workers: .*|workers: [$CPU]|; s|hugepages: .*|hugepages: $pages|" \
        "$ROOT/configs/bench/outside.yaml" >"$DIR/outside.yaml"
    generator_up "$DIR/requests-$2.pcap"
    "$TIDEGATE_BIN" run --config "$DIR/outside.yaml" >"$DIR/gateway.log" 2>&1 &
    SUBJECT=$!
    until_true 30 "the gateway" answers || failed gateway
    measure "tidegate run, $1, flows: $2" gateway worker0
    nothing_dropped || { "$TIDEGATE_BIN" show drops --socket "$DIR/api.sock" >&2; die "packets were dropped"; }
    subject_down
}
# What the ring towards the generator refuses is no fault of the gateway's, and nothing else may be dropped.
nothing_dropped() {
    "$TIDEGATE_BIN" show drops --json --socket "$DIR/api.sock" |
        jq -e 'all(.[]; .total == 0 or .reason == "transmit_full")' >/dev/null
}

outside() {
    local flows
    DIR=$(mktemp -d /tmp/tidegate-bench.XXXXXX)
    chmod 0755 "$DIR" # the gateway gives up root
    for flows in 1 1000 $FLOWS_MOST; do
        "$TIDEGATE_BIN" bench --flows "$flows" --requests "$DIR/requests-$flows.pcap"
    done
    say "$(dpdk-testpmd --version 2>&1 | grep -m 1 -o 'DPDK.*' || pkg-config --modversion libdpdk)," \
        "net_memif, 60-byte UDP, one way, $([[ $HUGEPAGES ]] && say with || say without) hugepages"
    printf '\n%-34s %9s %8s %7s %9s  %s\n' 'CPU time of the forwarding thread' ns/packet median Mpps /testpmd trust
    REFERENCE=0
    measure_testpmd macswap
    REFERENCE=$(awk '{ print $3 }' "$DIR/row")
    measure_testpmd io
    measure_macswap
    for flows in 1 1000 $FLOWS_MOST; do measure_gateway fullnat "$flows"; done
    measure_gateway dr $FLOWS_MOST
    measure_testpmd macswap
}
