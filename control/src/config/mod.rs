//! The YAML configuration: from the text of a file to a [`Config`] that is right as far as a file can be.
//!
//! Two steps happen here. The text becomes a tree in which every node knows its place ([`Place`]), and the tree
//! becomes a [`Config`], in which names have been looked up, numbers lie in their range and addresses fit
//! together. The third step, from `Config` to the snapshot that workers read, is the caller's. Nothing here
//! opens a device, asks the kernel or depends on the machine: the same file gives the same answer anywhere.

mod check;
mod error;
mod place;
#[cfg(test)]
mod properties;
mod read;
mod report;
mod schema;
#[cfg(test)]
mod schema_tests;
mod suggest;
mod types;
mod yaml;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use error::{ConfigErrors, Diagnostic};
pub use place::Place;
use report::{Fault, Report};
pub use types::*;

/// No file is read beyond this many bytes: 10,000 services with 100 servers each take half of it.
const LARGEST: u64 = 128 << 20;

/// Reads and validates the configuration file at `path`, which may be a pipe.
///
/// # Errors
/// Everything that is wrong with the file, in the order of places; or that it cannot be read, and why.
pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    match read_file(path) {
        Ok(bytes) => parse_bytes(&name, &bytes),
        Err(error) => {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => "check the path that was given",
                io::ErrorKind::PermissionDenied => {
                    "let the user read it that this is (`node.user`, in a running gateway)"
                }
                io::ErrorKind::IsADirectory => "name a file in it",
                _ => "name a configuration file",
            };
            Err(refusal(
                &name,
                Place::default(),
                Fault::new(format!("cannot be read: {error}"), remedy),
            ))
        }
    }
}

/// Validates the configuration in `text`; `name` is what messages call it.
///
/// # Errors
/// Everything that is wrong with it, in the order of places.
pub fn parse(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    let mut report = Report::new(name);
    let Some(document) = yaml::read(text, &mut report) else {
        return Err(report.into_errors());
    };
    let raw = read::read(&document, &mut report);
    let config = check::check(name, raw, &mut report);
    let warnings = report.finish()?;
    Ok(Config { warnings, ..config })
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "it is larger than {} MB",
            LARGEST >> 20
        )));
    }
    Ok(bytes)
}

fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Config, ConfigErrors> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(name, text),
        Err(error) => {
            let right = &bytes[..error.valid_up_to()];
            let line = right.split(|byte| *byte == b'\n');
            let (count, last) = line.fold((0, &right[..0]), |(count, _), line| (count + 1, line));
            let characters = String::from_utf8_lossy(last).chars().count();
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let place = Place {
                line: number(count),
                column: number(characters).saturating_add(1),
            };
            Err(refusal(
                name,
                place,
                Fault::new("not UTF-8 text from here on", "save the file as UTF-8"),
            ))
        }
    }
}

/// The file as a whole is wrong.
fn refusal(name: &str, place: Place, fault: Fault) -> ConfigErrors {
    let mut report = Report::new(name);
    report.error(place, "", fault);
    report.into_errors()
}
