# The parts of `./scripts/bench`, and how two runs of them are put side by side. Sourced, never run.
#
# The caller has common.sh and outside.sh, and sets TIDEGATE_BIN, CPU, HUGEPAGES and OUTSIDE.

memory() { taskset -c "$CPU" "$TIDEGATE_BIN" bench "$@"; }

# On as many CPUs as there are workers, the last ones; on fewer they share.
workers() {
    local count=${TIDEGATE_BENCH_WORKERS:-2} cpus
    cpus=$(nproc)
    "$TIDEGATE_BIN" bench --workers "$count" --workers-per-cpu $(((count + cpus - 1) / cpus)) --against-processes "$@"
}

RUNS=''
all() {
    local run part tee
    RUNS=$(mktemp -d /tmp/tidegate-bench-runs.XXXXXX)
    [[ $OUTSIDE ]] || say "outside is left out: see above"
    for run in 1 2; do
        for part in memory workers ${OUTSIDE:+outside}; do
            title "run $run: $part"
            # In this shell, which ends what `outside` starts, however that comes to its end.
            exec 9>&1 > >(exec tee "$RUNS/$part.$run")
            tee=$!
            "$part"
            outside_end
            exec >&9 9>&-
            wait "$tee"
        done
    done
    title "both runs"
    printf '%-72s %10s %10s %7s\n' 'best windows' 'run 1' 'run 2' '2nd/1st'
    for part in memory workers ${OUTSIDE:+outside}; do
        "figures_of_$part" <"$RUNS/$part.1" >"$RUNS/figures.1"
        "figures_of_$part" <"$RUNS/$part.2" >"$RUNS/figures.2"
        beside "$RUNS/figures.1" "$RUNS/figures.2"
    done
}
all_end() {
    [[ -z $RUNS ]] || rm -rf "$RUNS"
    RUNS=''
}

# Each prints lines of WHAT<tab>FIGURE, of the tables that its part has printed.
figures_of_memory() {
    awk -v OFS='\t' '
        /^mode / { openings = /connections\/s/; next }
        !/^(fullnat|nat|dr|tun) / { next }
        openings {
            what = $12
            for (i = 13; i <= NF; i++) what = what " " $i
            print $1 " IPv" $2 " " $3 ", " what ", ns", $5
            next
        }
        {
            name = $1 " IPv" $2 " " $3 ", flows: " $4
            print name ", ns/packet", $6
            if ($13 ~ /[0-9]/) print name ", /floor", $13
        }'
}
figures_of_workers() {
    awk -v OFS='\t' '
        /^rate of the workers/ { print name ", workers/processes", $10; next }
        !/^(fullnat|nat|dr|tun) / || $8 != "all" { next }
        {
            name = $1 " IPv" $2 ", " $5 ", flows of each: " $3
            print name ", elsewhere: " $6 " %, ns/packet", $10
            if ($15 ~ /[0-9]/) print name ", elsewhere: " $6 " %, ns/hop", $15
        }'
}
figures_of_outside() {
    awk -v OFS='\t' '$NF == "yes" || / no: / {
        what = $1
        for (i = 2; i < NF && $i !~ /^[0-9]+\.[0-9]+$/; i++) what = what " " $i
        print "memif, " what ", ns/packet", $i
    }'
}

# beside FIGURES FIGURES: the same figure of both in one line. testpmd stands in for the gateway twice in a run.
beside() {
    awk -F '\t' '
        { seen[FILENAME, $1]++; key = $1 SUBSEP seen[FILENAME, $1] }
        FNR == NR { first[key] = $2; next }
        key in first { printf "%-72s %10s %10s %7.2f\n", $1, first[key], $2, (first[key] > 0 ? $2 / first[key] : 0) }
    ' "$1" "$2"
}
