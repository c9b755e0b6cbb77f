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
fn known_connections_are_measured_over_both_indices_and_in_both_modes() {
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
        "dr tag 500",
    ];
    assert_eq!(what, expected);
    for row in &rows {
        assert!(row["pipeline"]["best"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["mac_swap"]["best"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["floor"].is_null(), row["mode"] == "dr", "{row}");
    }
    let bytes = rows[0]["bytes_per_connection"].as_f64().unwrap();
    assert!((90.0..94.0).contains(&bytes), "{bytes}");
}

#[test]
fn connections_that_come_and_go_are_measured() {
    let rows = rows(&["--flows", "1", "--mode", "fullnat", "--table", "tag"]);
    let packets: Vec<_> = rows[1..]
        .iter()
        .map(|row| row["packets"].as_u64().unwrap())
        .collect();
    assert_eq!(packets, [1, 8]);
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
