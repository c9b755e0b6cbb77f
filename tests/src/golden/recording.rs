//! The recordings as they lie in their files. A scenario's shape tells what it is; file names tell nothing.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Endings of files that stand beside the recordings for people to read.
const FOR_PEOPLE: &[&str] = &["md", "txt"];

/// One scenario.
#[derive(Debug)]
pub(super) struct Recording {
    /// Its name, or its command.
    pub(super) name: String,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// Which server each connection goes to.
    Sched(Sched),
    /// A state machine, transition by transition.
    States(States),
    /// Packets in and out, byte for byte, and the connection table after each.
    Flows(Flows),
    /// What ipvsadm says to a command.
    Errors(Errors),
    /// What ipvsadm prints.
    Text,
}

#[derive(Deserialize, Debug)]
pub(super) struct Sched {
    pub(super) service: Service,
    pub(super) fwd: String,
    pub(super) dests: Vec<Dest>,
    pub(super) ipvsadm: Vec<String>,
    #[serde(default)]
    pub(super) sysctl: BTreeMap<String, i64>,
    pub(super) events: Vec<SchedEvent>,
    pub(super) final_counts: Option<Counted>,
}

/// Active and inactive connections of each server.
pub(super) type Counted = BTreeMap<String, (u32, u32)>;

#[derive(Deserialize, Debug)]
pub(super) struct Service {
    pub(super) proto: Option<String>,
    pub(super) vip: Option<String>,
    pub(super) vport: Option<u16>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Dest {
    pub(super) id: String,
    pub(super) addr: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct SchedEvent {
    pub(super) op: String,
    pub(super) src: Option<String>,
    pub(super) dst: Option<String>,
    pub(super) expect: Option<String>,
    pub(super) counts: Option<Counted>,
    /// Which server `add_dest` adds, and where it is.
    pub(super) id: Option<String>,
    pub(super) addr: Option<String>,
    pub(super) cmd: Option<String>,
    pub(super) key: Option<String>,
    pub(super) value: Option<i64>,
    pub(super) ms: Option<u64>,
    /// Milliseconds since the first event; where it stands, it is the clock.
    pub(super) t_ms: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct States {
    pub(super) fwd: String,
    #[serde(default)]
    pub(super) sysctl: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) note: String,
    pub(super) paths: BTreeMap<String, Vec<String>>,
    pub(super) events: Vec<Transition>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Transition {
    pub(super) from: String,
    pub(super) seen_output: bool,
    pub(super) dir: String,
    /// TCP: the segment's flags, a letter each.
    pub(super) flags: Option<String>,
    /// SCTP: the packet's only chunk.
    pub(super) chunk: Option<String>,
    pub(super) to: Option<String>,
    /// What the recorder took for the timer, a round number near `shown`.
    pub(super) timeout: Option<u64>,
    pub(super) shown: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Flows {
    pub(super) ipvsadm: Vec<String>,
    #[serde(default)]
    pub(super) sysctl: BTreeMap<String, i64>,
    pub(super) events: Vec<FlowEvent>,
}

#[derive(Deserialize, Debug)]
pub(super) struct FlowEvent {
    pub(super) op: String,
    pub(super) at: Option<String>,
    pub(super) what: Option<String>,
    #[serde(default)]
    pub(super) in_hex: Vec<String>,
    #[serde(default)]
    pub(super) out: Vec<FlowPacket>,
    pub(super) cmd: Option<String>,
    pub(super) ms: Option<u64>,
    pub(super) conns: Option<Vec<FlowConnection>>,
}

#[derive(Deserialize, Debug)]
pub(super) struct FlowPacket {
    pub(super) nic: String,
    pub(super) to: String,
    pub(super) hex: Option<String>,
}

#[derive(Deserialize, Debug)]
pub(super) struct FlowConnection {
    pub(super) pro: String,
    pub(super) client: String,
    #[serde(rename = "virtual")]
    pub(super) service: String,
    pub(super) dest: String,
    pub(super) state: String,
    pub(super) shown: u64,
}

#[derive(Deserialize, Debug)]
pub(super) struct Errors {
    pub(super) setup: Vec<String>,
    pub(super) cmd: String,
    pub(super) rc: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// `stdout` or `stderr` is long and was cut.
    #[serde(default)]
    pub(super) usage: bool,
    pub(super) saved_after: Option<String>,
}

/// Every recording below `folder`, in the order of names.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if !FOR_PEOPLE.contains(&ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The scenarios of one file.
pub(super) fn load(file: &Path) -> Result<Vec<Recording>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let mut whole: Value = serde_json::from_str(&text).map_err(|e| format!("not a recording: {e}"))?;
    match whole.get_mut("scenarios").map(Value::take) {
        Some(Value::Array(scenarios)) if !scenarios.is_empty() => scenarios
            .into_iter()
            .enumerate()
            .map(|(i, s)| scenario(s).map_err(|e| format!("scenario {i}: {e}")))
            .collect(),
        Some(_) => Err("no scenarios".to_owned()),
        None => Err("not a recording: no `scenarios`".to_owned()),
    }
}

fn scenario(value: Value) -> Result<Recording, String> {
    let has = |key: &str| value.get(key).is_some();
    let named = value
        .get("name")
        .or_else(|| value.get("cmd"))
        .and_then(Value::as_str);
    let name = named.ok_or("it has neither `name` nor `cmd`")?.to_owned();
    let wrong = |e: serde_json::Error| format!("{name}: {e}");
    let shape = if has("events") && has("service") {
        Shape::Sched(serde_json::from_value(value).map_err(wrong)?)
    } else if has("events") && has("paths") {
        Shape::States(serde_json::from_value(value).map_err(wrong)?)
    } else if has("events") && has("ipvsadm") {
        Shape::Flows(serde_json::from_value(value).map_err(wrong)?)
    } else if has("setup") && has("cmd") {
        Shape::Errors(serde_json::from_value(value).map_err(wrong)?)
    } else if has("outputs") {
        Shape::Text
    } else {
        return Err(format!("{name}: of no known shape"));
    };
    Ok(Recording { name, shape })
}
