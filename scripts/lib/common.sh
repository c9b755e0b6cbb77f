# What the scripts share. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C

# Rust as rustup installs it; under sudo that is in the home of whoever called.
if ! command -v cargo >/dev/null; then
    PATH=$PATH:$HOME/.cargo/bin
    if [[ -n ${SUDO_USER:-} ]]; then
        PATH=$PATH:$(getent passwd "$SUDO_USER" | cut -d: -f6)/.cargo/bin
        : "${RUSTUP_HOME:=$(getent passwd "$SUDO_USER" | cut -d: -f6)/.rustup}"
        export RUSTUP_HOME
    fi
fi

if [[ -t 1 ]]; then BOLD=$'\e[1m' RED=$'\e[31m' PLAIN=$'\e[0m'; else BOLD='' RED='' PLAIN=''; fi

say() { printf '%s\n' "$*"; }
title() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$PLAIN"; }
die() {
    printf '%s%s: %s%s\n' "$RED" "$(basename "$0")" "$*" "$PLAIN" >&2
    exit 1
}

# until_true SECONDS WHAT COMMAND...: tries the command until it succeeds; gives up loudly at the deadline.
until_true() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= deadline)); then
            say "gave up waiting for: $what" >&2
            return 1
        fi
        sleep 0.05
    done
}

# Where cargo puts what it builds.
target_dir() { printf '%s' "${CARGO_TARGET_DIR:-$ROOT/target}"; }
