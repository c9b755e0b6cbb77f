use super::facts::Kind;
use super::fake::Fake;
use super::rules::Expected;
use super::*;
use std::fs;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn fake(configuration: &str) -> Result<Box<dyn Gateway>, String> {
    assert!(configuration.contains("192.168.1.50"));
    Ok(Box::new(Fake::new(&recordings())))
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-golden-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A recording under another name, with `from` in its text replaced by `to`.
    fn with(self, recording: &str, from: &str, to: &str) -> Folder {
        let text = fs::read_to_string(recordings().join(recording)).unwrap();
        assert!(text.contains(from), "{from}");
        let folder = self.0.join("never/seen");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.json"), text.replacen(from, to, 1)).unwrap();
        self
    }

    fn holding(self, name: &str, content: &[u8]) -> Folder {
        fs::write(self.0.join(name), content).unwrap();
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn summary(folder: &Folder) -> String {
    let report = replay(&folder.0, &fake);
    assert_eq!(
        report.good(),
        report.failures().is_empty(),
        "{:#?}",
        report.failures()
    );
    report.summary()
}

fn failures(folder: &Folder) -> String {
    let report = replay(&folder.0, &fake);
    assert!(!report.good());
    report.failures().join("\n")
}

#[test]
fn round_robin_passes_on_a_naive_model() {
    let folder = Folder::new("rr").with("sched/rr.json", "rr-equal", "some-name");
    let report = replay(&folder.0, &fake);
    // The model has no IPv6, no SCTP, and no wrr, which one scenario changes to in its middle.
    assert_eq!(
        report.summary(),
        "golden: 19 passed, 0 deviating, 0 unsupported, 3 failed",
        "{}",
        report.failures().join("\n")
    );
}

#[test]
fn state_tables_pass_on_a_naive_model() {
    let folder = Folder::new("states").with("tcp_states.json", "\"tcp-dr\"", "\"renamed\"");
    let report = replay(&folder.0, &fake);
    let failed: Vec<_> = report
        .failures()
        .iter()
        // The model takes no settings.
        .filter(|line| !line.contains("set-timeouts") && !line.contains("-secure"))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn a_wrong_server_is_a_failure() {
    let folder = Folder::new("server").with("sched/rr.json", "\"expect\": \"rs3\"", "\"expect\": \"rs2\"");
    let text = failures(&folder);
    assert!(
        text.contains("x.json: rr-equal: event 0 (syn)\n  expected rs2\n  seen     rs3"),
        "{text}"
    );
}

#[test]
fn wrong_counts_are_a_failure() {
    let folder = Folder::new("counts").with("sched/rr.json", "\"rs1\": [4, 0]", "\"rs1\": [3, 1]");
    let text = failures(&folder);
    assert!(
        text.contains("event - (final_counts)\n  expected rs1 active 3 inactive 1\n  seen     rs1 active 4"),
        "{text}"
    );
}

#[test]
fn a_wrong_state_or_timeout_is_a_failure() {
    let transition =
        "\"dir\": \"in\", \"flags\": \"A\", \"to\": \"ESTABLISHED\", \"shown\": 899, \"timeout\": 900";
    let states = |to: &str| failures(&Folder::new("state").with("tcp_states.json", transition, to));
    let text = states(&transition.replace("ESTABLISHED", "CLOSE"));
    assert!(
        text.contains(
            "tcp-nat: event 3 (SYN_RECV in A)\n  expected CLOSE 900 s\n  seen     ESTABLISHED 900 s"
        ),
        "{text}"
    );
    let text = states(&transition.replace("900", "100"));
    assert!(
        text.contains("expected ESTABLISHED 100 s\n  seen     ESTABLISHED 900 s"),
        "{text}"
    );
}

#[test]
fn a_wrong_byte_or_row_is_a_failure() {
    let one = "{\"scenarios\": [{\"name\": \"one\", \"ipvsadm\": [\"-A -u 10.0.0.100:53 -s rr\",
        \"-a -u 10.0.0.100:53 -r 192.168.1.11:53\"], \"events\": [{\"op\": \"packet\", \"at\": \"client\",
        \"in_hex\": [\"4500002100004000401126670a0100010a00006404000035000da36768656c6c6f\"],
        \"out\": [{\"nic\": \"rs\", \"to\": \"rs1\", \"pkt\": \"\",
            \"hex\": \"45000021000040003f1127670a0100010a00006404000035000da36768656c6c6f\"}],
        \"conns\": [{\"pro\": \"UDP\", \"client\": \"10.1.0.1:1024\", \"virtual\": \"10.0.0.100:53\",
            \"dest\": \"192.168.1.11:53\", \"state\": \"UDP\", \"shown\": 299}]}]}]}";
    let with =
        |from: &str, to: &str| Folder::new("bytes").holding("a.json", one.replace(from, to).as_bytes());
    assert_eq!(
        summary(&with("", "")),
        "golden: 1 passed, 0 deviating, 0 unsupported, 0 failed"
    );
    assert!(failures(&with("3f1127", "3f1128")).contains("expected rs rs1 45000021000040003f1128"));
    assert!(failures(&with("\"rs1\"", "\"rs2\"")).contains("seen     rs rs1 4500"));
    assert!(failures(&with("192.168.1.11:53\",", "192.168.1.12:53\",")).contains("192.168.1.12:53 UDP 299"));
    assert!(failures(&with("299", "120")).contains("UDP 120\n"));
    assert!(failures(&with("\"hex\"", "\"hexx\"")).contains("no bytes of a packet"));
    assert!(failures(&with("\"packet\"", "\"parcel\"")).contains("operation `parcel` is not known"));
}

#[test]
fn errors_that_the_grammar_finds_pass_without_a_table() {
    let folder = Folder::new("errors").with("errors.json", "measured", "measured");
    let report = replay(&folder.0, &fake);
    assert!(report.good(), "{}", report.failures().join("\n"));
    let changed = Folder::new("errors2").with(
        "errors.json",
        "illegal weight specified",
        "illegal weigth specified",
    );
    assert!(failures(&changed).contains("illegal weigth specified"));
}

#[test]
fn what_says_nothing_fails() {
    assert!(failures(&Folder::new("empty")).contains("no recording here"));
    assert!(failures(&Folder::new("people").holding("README.md", b"x")).contains("no recording here"));
    let gone = Folder(PathBuf::from("/nonexistent/recordings"));
    assert!(failures(&gone).contains("No such file"));
    assert!(failures(&Folder::new("binary").holding("a.bin", &[0xff, 0])).contains("a.bin"));
    assert!(failures(&Folder::new("list").holding("a.json", b"[]")).contains("no `scenarios`"));
    assert!(
        failures(&Folder::new("none").holding("a.json", b"{\"scenarios\": []}")).contains("no scenarios")
    );
    let odd = b"{\"scenarios\": [{\"name\": \"a\", \"odd\": 1}]}";
    assert!(failures(&Folder::new("odd").holding("a.json", odd)).contains("a: of no known shape"));
    let quiet = b"{\"scenarios\": [{\"name\": \"q\", \"ipvsadm\": [], \"events\": [], \"sysctl\": {\"sloppy_tcp\": 1}}]}";
    assert!(
        failures(&Folder::new("quiet").holding("a.json", quiet)).contains("expected something to compare")
    );
    let text = b"{\"scenarios\": [{\"name\": \"t\", \"outputs\": {}}]}";
    let report = replay(&Folder::new("text").holding("a.json", text).0, &fake);
    assert!(!report.good());
    assert_eq!(
        report.summary(),
        "golden: 0 passed, 0 deviating, 1 unsupported, 0 failed"
    );
}

#[test]
fn a_gateway_that_panics_or_does_not_start_fails() {
    let folder = Folder::new("start").with("sched/rr.json", "rr-equal", "rr-equal");
    let report = replay(&folder.0, &|_| Err("no memory".to_owned()));
    assert!(report.failures()[0].contains("no memory") && !report.good());
    let report = replay(&folder.0, &|_| panic!("{} is lost", "a packet"));
    assert!(report.failures()[0].contains("a packet is lost"));
}

#[test]
fn a_rule_changes_what_is_expected_and_only_where_it_applies() {
    let rules = [Rule {
        what: "which server is first",
        reason: "the first server is out",
        change: |facts, event, expected| {
            let first = facts.kind == Kind::Sched
                && event.came.is_empty()
                && *expected == Expected::Went("rs9".to_owned());
            first.then(|| Expected::Went("rs3".to_owned()))
        },
    }];
    let folder = Folder::new("rules").with("sched/rr.json", "\"expect\": \"rs3\"", "\"expect\": \"rs9\"");
    let report = replay_with(&folder.0, &fake, &rules, 1);
    assert_eq!(
        report.summary(),
        "golden: 18 passed, 1 deviating, 0 unsupported, 3 failed"
    );
    assert!(failures(&folder).contains("expected rs9"));
}

#[test]
fn every_recording_of_this_repository_has_a_shape() {
    for file in recording::files(&recordings()).unwrap() {
        assert!(!recording::load(&file).unwrap().is_empty());
    }
}

/// What several workers may do otherwise is the order of servers, and nothing else.
#[test]
fn several_workers_may_take_other_turns_and_nothing_else() {
    let other = |from: &str, to: &str, workers| {
        let folder = Folder::new("turns").with("sched/rr.json", from, to);
        let report = replay_with(&folder.0, &fake, RULES, workers);
        (report.summary(), report.failures().join("\n"))
    };
    let (from, to) = ("\"expect\": \"rs3\"", "\"expect\": \"rs2\"");
    assert!(other(from, to, 1).1.contains("rr-equal"));
    // The model has no IPv6 and no SCTP; its rr is near enough to wrr where the recording changes to that.
    let (summary, failures) = other(from, to, 2);
    assert!(summary.ends_with(" 2 failed"), "{failures}");
    assert!(!failures.contains("rr-equal"), "{failures}");
    let refused = other(from, "\"expect\": \"icmp:3/3\"", 2).1;
    assert!(
        refused.contains("rr-equal: event 0 (syn)\n  expected icmp:3/3"),
        "{refused}"
    );
}
