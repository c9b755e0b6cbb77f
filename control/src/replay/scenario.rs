//! A scenario: one event a line, as JSON. What comes out is JSON too, one line for each frame sent, each drop,
//! each command, and the connection table where it is asked for.

use super::{Outcome, Replay};
use crate::view;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};

/// One line of a scenario.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Event {
    /// Seconds since the start; the event before it when missing.
    at: Option<f64>,
    /// The port that `hex` arrives at.
    port: Option<String>,
    /// A frame from its Ethernet header on, in hexadecimal.
    hex: Option<String>,
    /// An ipvsadm command line.
    command: Option<String>,
}

/// Where a scenario is wrong, or could not be read or answered.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A line is wrong.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The scenario as it was named.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What to replay, and how.
pub struct Scenario<R> {
    /// What messages call it.
    pub name: String,
    /// Its lines.
    pub lines: R,
    /// Whether to print the connection table after each event.
    pub connections: bool,
}

/// Replays a scenario, and prints what comes out.
///
/// # Errors
/// A line is wrong, or reading or writing failed; what came before has been printed.
pub fn run<R: BufRead>(
    replay: &mut Replay,
    scenario: Scenario<R>,
    out: &mut impl Write,
) -> Result<(), ScenarioError> {
    for (number, line) in scenario.lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |problem: String| ScenarioError::Line {
            file: scenario.name.clone(),
            line: number + 1,
            problem,
        };
        let event: Event = serde_json::from_str(&line).map_err(|error| wrong(not_an_event(&error)))?;
        let answers = happen(replay, event).map_err(wrong)?;
        for answer in answers {
            writeln!(out, "{answer}")?;
        }
        if scenario.connections {
            let table: Vec<view::Connection> =
                replay.connections().iter().map(view::Connection::from).collect();
            writeln!(out, "{}", json!({"at": replay.now(), "connections": table}))?;
        }
    }
    Ok(())
}

fn not_an_event(error: &serde_json::Error) -> String {
    format!(
        "not an event: {error}; write {{\"at\": 0.5, \"port\": \"wan\", \"hex\": \"...\"}}, {{\"at\": 60}} or \
         {{\"command\": \"ipvsadm -A ...\"}}"
    )
}

/// Lets one event happen; what to print of it.
fn happen(replay: &mut Replay, event: Event) -> Result<Vec<Value>, String> {
    let at = event.at.unwrap_or(replay.now());
    if !at.is_finite() || at < replay.now() {
        return Err(format!(
            "time runs forwards: at {at} comes after {}; sort the events",
            replay.now()
        ));
    }
    let frame = match (&event.port, &event.hex) {
        (Some(port), Some(hex)) => Some((port_number(replay, port)?, bytes(hex)?)),
        (None, None) => None,
        (Some(_), None) => return Err("port without hex; add the frame".to_owned()),
        (None, Some(_)) => return Err("hex without port; add the port that the frame arrives at".to_owned()),
    };
    let mut answers: Vec<Value> = replay
        .advance_to(at)
        .into_iter()
        .map(|(at, outcome)| answer(replay, at, outcome))
        .collect();
    let now = replay.now();
    if let Some((port, frame)) = frame {
        let outcomes = replay.inject(port, &frame);
        answers.extend(outcomes.into_iter().map(|outcome| answer(replay, now, outcome)));
    }
    if let Some(line) = event.command {
        let printed = replay.command(&line);
        answers.push(json!({
            "at": now, "command": line,
            "stdout": printed.stdout, "stderr": printed.stderr, "exit": printed.exit,
        }));
    }
    Ok(answers)
}

fn answer(replay: &Replay, at: f64, outcome: Outcome) -> Value {
    match outcome {
        Outcome::Sent(port, frame) => {
            json!({"at": at, "port": replay.port_names()[port], "hex": hex(&frame)})
        }
        Outcome::Dropped(reason) => json!({"at": at, "reason": reason.label()}),
    }
}

fn port_number(replay: &Replay, name: &str) -> Result<usize, String> {
    let names = replay.port_names();
    names.iter().position(|known| known == name).ok_or_else(|| {
        format!(
            "no port is named {name}; the configuration has: {}",
            names.join(", ")
        )
    })
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => Err("hex is not a frame in hexadecimal; write an even number of digits 0-9 and a-f".to_owned()),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
