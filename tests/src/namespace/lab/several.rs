//! Gateways of several workers, on the CPUs that there are.

use std::fs;

/// The same configuration with so many workers, over two CPUs where the test may use two, and ports of so many queue
/// pairs. The rest of it is any that says `workers: auto`.
pub(crate) fn several(yaml: &str, workers: usize, pairs: usize) -> String {
    let cpus = cpus();
    let (list, each) = if workers.is_multiple_of(cpus.len()) {
        (cpus.join(", "), workers / cpus.len())
    } else {
        (cpus[0].clone(), workers)
    };
    let yaml = yaml.replacen(
        "  workers: auto\n",
        &format!("  workers: [{list}]\n  workers_per_cpu: {each}\n"),
        1,
    );
    assert!(yaml.contains("workers_per_cpu"), "no `workers: auto` in {yaml}");
    let mut parts = yaml.split("\"net_af_packet");
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (device, rest) = part.split_once('"').expect("the end of a device");
        changed += &format!("\"net_af_packet{device},qpairs={pairs}\"{rest}");
    }
    changed
}

/// As [`several`], as the environment says: `TIDEGATE_WORKERS=2`, or `TIDEGATE_WORKERS=4x2` for 4 workers and ports of 2
/// queue pairs. Any namespace test can be run so; those that expect one worker's order of servers fail.
pub(super) fn as_told(yaml: &str) -> String {
    let Ok(told) = std::env::var("TIDEGATE_WORKERS") else {
        return yaml.to_owned();
    };
    if yaml.contains("workers_per_cpu") || !yaml.contains("  workers: auto\n") {
        return yaml.to_owned();
    }
    let (workers, pairs) = told.split_once('x').unwrap_or((&told, "1"));
    let number = |text: &str| text.parse().expect("TIDEGATE_WORKERS: 2, or 4x2");
    several(yaml, number(workers), number(pairs))
}

/// The first and the last CPU that this process may use.
fn cpus() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = allowed.unwrap().trim();
    let mut numbers = list.split([',', '-']).map(str::to_owned);
    let first = numbers.next().unwrap();
    let last = numbers.next_back();
    std::iter::once(first).chain(last).collect()
}
