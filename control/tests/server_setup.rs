//! What `tidegate server-setup` prints for servers of each mode, family and tunnel: `server_setup/NAME.sh`, and
//! `NAME-undo.sh` for its reverse. With `TIDEGATE_BLESS=1` the texts are written anew: read the difference before
//! committing it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tidegate::config::{self, Config};
use tidegate::server_setup::script;

/// Services whose servers all need the same.
const SERVICES: [&str; 16] = [
    "nat",
    "nat6",
    "nat-far",
    "dr",
    "dr-too",
    "dr6",
    "ipip",
    "ipip6",
    "ipip-6in4",
    "ipip-4in6",
    "gue",
    "gue6",
    "gue6-too",
    "gre",
    "gre6",
    "fullnat",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server_setup")
}

fn services() -> Config {
    config::load(&folder().join("services.yaml")).unwrap()
}

fn text(service: &str, server: Option<&str>, undo: bool) -> String {
    let server = server.map(|server| server.parse::<IpAddr>().unwrap());
    script(&services(), service, server, undo).unwrap()
}

fn refusal(service: &str, server: Option<&str>) -> String {
    let server = server.map(|server| server.parse::<IpAddr>().unwrap());
    script(&services(), service, server, false)
        .unwrap_err()
        .to_string()
}

#[test]
fn each_kind_of_service_has_its_text() {
    let mut wrong = String::new();
    for service in SERVICES {
        for (undo, suffix) in [(false, ""), (true, "-undo")] {
            let (found, file) = (
                text(service, None, undo),
                folder().join(format!("{service}{suffix}.sh")),
            );
            if std::env::var_os("TIDEGATE_BLESS").is_some() {
                fs::write(&file, &found).unwrap();
            } else if fs::read_to_string(&file).unwrap_or_default() != found {
                wrong.push_str(&format!("--- {service}{suffix} says now:\n{found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_text_is_a_shell_script() {
    for service in SERVICES {
        for undo in [false, true] {
            let text = text(service, None, undo);
            let output = Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && message.is_empty(), "{message}{text}");
        }
    }
}

#[test]
fn one_server_is_named_alone() {
    let text = text("dr", Some("10.0.0.12"), false);
    assert!(text.contains("for address in 10.0.0.12; do"), "{text}");
    assert!(!text.contains("10.0.0.11"), "{text}");
}

#[test]
fn servers_that_differ_are_set_up_one_by_one() {
    assert_eq!(
        refusal("mixed", None),
        "the servers of `mixed` need different setups; name one of them: --server 10.0.0.11 (dr), \
         --server 10.0.0.12 (tun)"
    );
    assert!(text("mixed", Some("10.0.0.11"), false).contains("203.0.113.70/32 dev lo"));
    assert!(text("mixed", Some("10.0.0.13"), false).contains("203.0.113.70/32 dev tg-ipip"));
}

#[test]
fn a_service_is_known_by_where_it_listens() {
    assert_eq!(text("203.0.113.20:443/tcp", None, false), text("dr", None, false));
    assert_eq!(
        text("[2001:db8:1::20]:80/tcp", None, false),
        text("dr6", None, false)
    );
}

#[test]
fn what_is_not_there_is_said() {
    let unknown = refusal("web", None);
    assert!(
        unknown.starts_with("no service is called `web`; there are: nat, nat6, nat-far, dr, "),
        "{unknown}"
    );
    assert_eq!(
        refusal("dr", Some("10.0.0.13")),
        "10.0.0.13 is not a server of `dr`; its servers: 10.0.0.11, 10.0.0.12"
    );
    assert_eq!(
        refusal("empty", None),
        "`empty` has no servers; add one to its pool"
    );
}

/// The program with arguments after `server-setup`.
fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("server-setup")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_command_prints_and_fails_as_any() {
    let file = folder().join("services.yaml");
    let file = file.to_str().unwrap();
    let good = program(&["--config", file, "--service", "dr6", "--undo"]);
    assert_eq!(good.status.code(), Some(0));
    assert_eq!(String::from_utf8(good.stdout).unwrap(), text("dr6", None, true));
    let unknown = program(&["--config", file, "--service", "web"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(1), 0));
    let bad = program(&["--config", "/nonexistent.yaml", "--service", "web"]);
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(2), 0));
}
