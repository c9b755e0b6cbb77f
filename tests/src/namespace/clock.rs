//! The date is set, forwards and back, on a gateway with traffic. A namespace has no date of its own, so the program
//! gets one: a library that is loaded before it adds a number of seconds to every reading of the wall clock, and to no
//! other clock. Workers read the processor's counter, which no date changes.

use crate::balance::curl;
use crate::endings::Pair;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, number, until};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Instant, SystemTime};

/// Every way to the wall clock in the C library. What is added stands in a file that stays mapped.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *shift;

__attribute__((constructor)) static void begin(void)
{
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *room = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (room == MAP_FAILED)
        abort();
    close(file);
    shift = room;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = syscall(SYS_clock_gettime, clock, now);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *shift;
    return code;
}

int gettimeofday(struct timeval *now, void *zone)
{
    int code = syscall(SYS_gettimeofday, now, zone);
    if (code == 0)
        now->tv_sec += *shift;
    return code;
}

time_t time(time_t *into)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The library, and the file that says what it adds.
struct Date {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl Date {
    fn new(lab: &Lab) -> Date {
        let (source, library, path) = (lab.file("clock.c"), lab.file("clock.so"), lab.file("shift"));
        fs::write(&source, LIBRARY).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .status()
            .expect("cc");
        assert!(status.success(), "{}", source.display());
        let file = File::create(&path).unwrap();
        let date = Date { library, path, file };
        date.set(0);
        date
    }

    /// Sets the gateway's date to so many seconds from now.
    fn set(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

/// The date in so many seconds from now, in UNIX time.
#[allow(clippy::disallowed_methods, reason = "the wall clock is what this is about")]
fn in_seconds(seconds: i64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_secs().saturating_add_signed(seconds)
}

/// The seconds that each connection and template has left, the fewest first.
fn left(gateway: &Gateway) -> Vec<u64> {
    let rows = gateway.connections();
    let mut left: Vec<u64> = rows.iter().map(|row| number(row, "expires")).collect();
    left.sort_unstable();
    left
}

/// TIME-02.
#[test]
fn time_02_a_new_date_ends_nothing_and_keeps_nothing() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let date = Date::new(&lab);
    // Idle connections on a port of their own, beside pages that come and go.
    let yaml = Gateway::usual().replace(
        "services:\n",
        &format!(
            "services:\n  - {{ name: idle, listen: \"{FULLNAT}:7000/tcp\", pool: one, mode: fullnat, \
             local_addresses: dip, timeouts: {{ tcp: {{ established: 2000 }} }} }}\n"
        ),
    );
    let yaml = yaml.replace(
        "pools:\n",
        "pools:\n  - { name: one, servers: [{ address: 10.0.0.11, port: 7000 }] }\n",
    ) + "timeouts: { tcp: { syn_recv: 1, fin_wait: 1, time_wait: 1, close: 1, close_wait: 1, last_ack: 1 } }\n";
    let gateway = Gateway::start_with(
        &lab,
        &yaml,
        &[("LD_PRELOAD", &date.library), ("CLOCK_SHIFT", &date.path)],
    );
    let listener = crate::endings::listen(&lab, "10.0.0.11:7000");
    let opened = Instant::now();
    let mut pairs: Vec<Pair> = (0..8)
        .map(|_| Pair::open_at(&lab, &format!("{FULLNAT}:7000"), &listener))
        .collect();
    for shift in [3600, -3600, 400 * 86_400, -400 * 86_400, 0] {
        date.set(shift);
        assert!(gateway.reload().status.success());
        let loaded = number(&gateway.show("status")["reloads"], "loaded_at");
        assert!(
            loaded.abs_diff(in_seconds(shift)) < 1000,
            "the gateway has that date: {loaded}"
        );
        // The log goes by it: as far as the hour, which may just have changed.
        until("a line of the log with that date", PATIENCE, || {
            let hour = |seconds| {
                let at = format!("@{}", in_seconds(seconds));
                let output = Command::new("date")
                    .args(["-u", "-d", &at, "+%Y-%m-%dT%H"])
                    .output();
                String::from_utf8(output.unwrap().stdout)
                    .unwrap()
                    .trim()
                    .to_owned()
            };
            let log = gateway.log();
            let wanted = [hour(shift), hour(shift - 60)];
            wanted.iter().any(|hour| log.contains(hour)).then_some(())
        });
        // Pages come and go, and what has ended goes in its second, neither at once nor after an hour.
        assert_eq!(curl(&lab.client(), FULLNAT, 30).len(), 30);
        until("connections that have ended to go", PATIENCE, || {
            (gateway.connections().len() == pairs.len()).then_some(())
        });
        let (left, elapsed) = (left(&gateway), opened.elapsed().as_secs());
        assert!(
            left.iter()
                .all(|left| (1998u64.saturating_sub(elapsed)..=2000).contains(left)),
            "{left:?} of 2000 s are left after {elapsed} s"
        );
        pairs[0].talk();
        for row in gateway.rows("workers") {
            let busy = row["busy"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&busy), "{row}");
        }
    }
    pairs.iter_mut().for_each(Pair::talk);
    gateway.finish();
}
