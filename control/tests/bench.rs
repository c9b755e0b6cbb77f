//! `tidegate bench` measures each thing that it says it does, over both indices; figures themselves are no test's
//! business. It refuses to print when a packet was dropped, so this also runs the pipeline over real mbufs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::process::Command;

fn rows(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("bench")
        .args(["--windows", "1", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn known_connections_are_measured_over_both_indices_and_in_all_modes() {
    let rows = rows(&["--flows", "1,500", "--no-openings"]);
    let what: Vec<_> = rows
        .iter()
        .map(|row| format!("{} {} {}", row["mode"], row["table"], row["flows"]).replace('"', ""))
        .collect();
    let expected = [
        "fullnat tag 1",
        "fullnat tag 500",
        "fullnat rte-hash 1",
        "fullnat rte-hash 500",
        "nat tag 500",
        "dr tag 500",
        "tun tag 500",
    ];
    assert_eq!(what, expected);
    for row in &rows {
        assert!(row["pipeline"]["best"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["mac_swap"]["best"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["cycles"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["floor"].is_null(), row["mode"] != "fullnat", "{row}");
        assert_eq!(
            (&row["frame"], &row["family"]),
            (&60.into(), &"4".into()),
            "{row}"
        );
    }
    let bytes = rows[0]["bytes_per_connection"].as_f64().unwrap();
    assert!((79.0..82.0).contains(&bytes), "{bytes}");
}

#[test]
fn frames_are_as_long_as_asked_for_and_drawn_by_zipf_s_law() {
    for (mode, family, length) in [("fullnat", "64", 1220), ("tun", "6", 1220), ("nat", "4", 1200)] {
        let rows = rows(&[
            "--flows",
            "300",
            "--no-openings",
            "--size",
            "1200",
            "--distribution",
            "zipf",
            "--table",
            "tag",
            "--mode",
            mode,
            "--family",
            family,
        ]);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(
            (&row["mode"], &row["family"], &row["frame"], &row["distribution"]),
            (&mode.into(), &family.into(), &length.into(), &"zipf".into())
        );
        assert!(row["floor"].is_null(), "{row}");
    }
}

#[test]
fn only_fullnat_leads_from_ipv6_to_ipv4() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["bench", "--family", "64", "--mode", "dr", "--table", "tag"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("FULLNAT only"),
        "{errors}"
    );
}

#[test]
fn connections_that_come_and_go_are_measured() {
    let arguments = ["--flows", "1", "--table", "tag", "--records", "20000", "--mode"];
    for (mode, family, packets) in [
        ("fullnat", "4", &[1, 8, 6][..]),
        ("nat", "6", &[1, 8, 6]),
        ("dr", "4", &[1]),
    ] {
        let rows = rows(&[&arguments[..], &[mode, "--family", family]].concat());
        let lives: Vec<_> = rows[1..]
            .iter()
            .map(|row| row["packets"].as_u64().unwrap())
            .collect();
        assert_eq!(lives, packets, "{mode} {family}");
        for row in &rows[2..] {
            // 10,000 beside whole lives, and 80 % of the room beside short ones.
            let among = if row["packets"] == 8 { 10_000 } else { 16_000 };
            let present = row["present"].as_u64().unwrap();
            assert!((among * 3 / 4..among * 3 / 2).contains(&present), "{row}");
        }
    }
}

/// Two workers, and two processes, share a CPU here, so that one is enough.
#[test]
fn workers_are_measured_with_and_without_hops_and_beside_processes() {
    for (mode, family, length) in [("fullnat", "64", 80), ("dr", "4", 60)] {
        let arguments = [
            "--flows",
            "200",
            "--hops",
            "0,50",
            "--against-processes",
            "--mode",
            mode,
        ];
        let shared = ["--workers", "2", "--workers-per-cpu", "2", "--family", family];
        let rows = rows(&[&arguments[..], &shared].concat());
        let what: Vec<_> = rows
            .iter()
            .map(|row| format!("{} {} {}", row["what"], row["hops"], row["flows"]).replace('"', ""))
            .collect();
        // Beside processes first, then with hops.
        let expected = [
            "workers 0 200",
            "processes 0 200",
            "workers 0 200",
            "workers 50 200",
        ];
        assert_eq!(what, expected);
        for row in &rows {
            let each = row["each"].as_array().unwrap();
            assert_eq!((each.len(), &row["workers"]), (2, &2.into()), "{row}");
            for part in each.iter().chain([&row["all"]]) {
                assert!(part["packet"]["best"].as_f64().unwrap() > 0.0, "{row}");
                assert!(part["mpps"].as_f64().unwrap() > 0.0, "{row}");
                let hops = part["hops_per_packet"].as_f64().unwrap();
                assert_eq!(hops > 0.0, row["hops"] == 50, "{row}");
            }
            assert_eq!(
                (&row["mode"], &row["family"], &row["frame"]),
                (&mode.into(), &family.into(), &length.into())
            );
            assert_eq!(row["hop"].is_null(), row["hops"] == 0, "{row}");
            assert_eq!(row["ratio"].is_null(), row["what"] == "workers", "{row}");
        }
        for ratio in ["best", "median", "mpps"] {
            assert!(rows[1]["ratio"][ratio].as_f64().unwrap() > 0.0, "{rows:?}");
        }
    }
}

#[test]
fn too_many_workers_are_refused_with_what_to_do() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus >= 16 {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["bench", "--workers", "16"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let advice = format!("--workers-per-cpu {}", 16usize.div_ceil(cpus));
    assert!(!output.status.success() && errors.contains(&advice), "{errors}");
}

#[test]
fn memory_is_told_for_each_connection() {
    let rows = rows(&["--only", "memory", "--capacities", "20000,40000"]);
    assert_eq!(rows.len(), 2);
    for (row, capacity) in rows.iter().zip([20_000u64, 40_000]) {
        let of = |key: &str| row[key].as_f64().unwrap();
        assert_eq!(row["capacity"], capacity);
        let full = of("connections") / capacity as f64;
        assert!((0.899..0.905).contains(&full), "{row}");
        let parts = [
            "records",
            "index",
            "beside",
            "closing",
            "shown",
            "pairs",
            "pair_indices",
        ];
        let sum: f64 = parts.iter().map(|part| of(part)).sum();
        assert!((sum - of("total")).abs() < 0.01, "{row}");
        // A record is a cache line.
        assert!(of("records") > 64.0 && of("index") > 16.0, "{row}");
    }
}

/// The ordinary build says how to get one that can.
#[test]
fn stages_are_told_where_the_build_times_them() {
    if cfg!(all(feature = "stages", target_arch = "x86_64")) {
        let rows = rows(&["--stages", "--flows", "1,300", "--mode", "fullnat"]);
        assert_eq!(rows.len(), 2);
        for row in rows {
            let stages = row["stages"].as_array().unwrap();
            let names: Vec<_> = stages
                .iter()
                .map(|part| part["stage"].as_str().unwrap())
                .collect();
            let expected = [
                "receive",
                "parse",
                "steer",
                "track",
                "forward",
                "housekeeping",
                "transmit",
            ];
            assert_eq!(names, expected);
            // One window: the parts are all of it.
            let best = |value: &serde_json::Value| value["best"].as_f64().unwrap();
            let sum: f64 = stages.iter().map(|part| best(&part["cost"])).sum();
            assert!(
                sum > 0.0 && (sum / best(&row["all"]) - 1.0).abs() < 0.001,
                "{row}"
            );
            assert!(stages.iter().all(|part| best(&part["cost"]) > 0.0), "{row}");
        }
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["bench", "--stages"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("--features stages"),
        "{errors}"
    );
}

#[test]
fn requests_are_written_for_other_generators() {
    let file = std::env::temp_dir().join(format!("tidegate-requests.{}.pcap", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["bench", "--flows", "1000", "--requests"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(status.success());
    let written = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(written.len(), 24 + 16_384 * (16 + 60));
    let clients: std::collections::HashSet<_> = written[24..]
        .chunks(76)
        .map(|packet| &packet[16 + 26..16 + 36])
        .collect();
    // Of 1,000 that are drawn from 16,384 times: each of them, or nearly so.
    assert!((900..=1000).contains(&clients.len()), "{}", clients.len());
}

#[test]
fn schedulers_tables_snapshots_and_expiry_are_measured() {
    let rows = rows(&[
        "--only",
        "schedulers,maglev,snapshots,expiry",
        "--servers",
        "10,20",
        "--services",
        "20",
        "--due",
        "2000",
        "--rounds",
        "1",
    ]);
    let of = |key: &str| -> Vec<&serde_json::Value> {
        let these = rows.iter().filter(|row| !row[key].is_null());
        these.collect()
    };
    // Fourteen, and the reference, at two sizes.
    let schedulers = of("scheduler");
    assert_eq!(schedulers.len(), 30);
    for row in schedulers {
        assert!(row["pick"]["best"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
    let places: Vec<u64> = of("places")
        .iter()
        .map(|row| row["places"].as_u64().unwrap())
        .collect();
    assert_eq!(places, [65_521, 65_521, 131_071, 131_071]);
    let changes: Vec<&str> = of("change")
        .iter()
        .map(|row| row["change"].as_str().unwrap())
        .collect();
    let expected = [
        "added",
        "none",
        "one_weight",
        "all_weights",
        "one_weight_of_wide",
        "removed",
    ];
    assert_eq!(changes, expected);
    let due: Vec<u64> = of("connections")
        .iter()
        .map(|row| row["connections"].as_u64().unwrap())
        .collect();
    assert_eq!(due, [0, 2000, 0, 2000]);
    for row in of("turn") {
        assert!(row["turn"]["longest"].as_f64().unwrap() > 0.0, "{row}");
    }
}
