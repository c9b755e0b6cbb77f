//! Cuts a command line into options and their values.
//!
//! It takes what ipvsadm's takes: `-t ADDR`, `-tADDR`, `-t=ADDR`, `--tcp-service ADDR`, `--tcp-service=ADDR`, short
//! options in clusters. Long names must be whole. It judges no value.

use super::options::{OPTIONS, Spec, Value};

/// One option of a line.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) spec: &'static Spec,
    pub(super) value: Option<&'a str>,
    /// The word that it stood in, for messages.
    pub(super) word: &'a str,
}

/// Why the scanner stopped: the word, and what is wrong with it.
#[derive(Debug)]
pub(super) struct BadWord<'a> {
    pub(super) word: &'a str,
    pub(super) fault: &'static str,
}

const UNKNOWN: &str = "unknown option";
const MISSING: &str = "missing argument";
const UNWANTED: &str = "option does not take an argument";

/// Walks over a line, option by option; words that are neither option nor value are collected in `rest`.
pub(super) struct Scanner<'a> {
    args: &'a [&'a str],
    at: usize,
    /// The word whose cluster of short options is being read, and what is left of it.
    cluster: Option<(&'a str, &'a str)>,
    pub(super) rest: Vec<&'a str>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(args: &'a [&'a str]) -> Scanner<'a> {
        Scanner {
            args,
            at: 0,
            cluster: None,
            rest: Vec::new(),
        }
    }

    /// The next option; `None` at the end of the line.
    pub(super) fn next(&mut self) -> Option<Result<Found<'a>, BadWord<'a>>> {
        if let Some((word, left)) = self.cluster.take() {
            return Some(self.short(word, left));
        }
        while let Some(&word) = self.args.get(self.at) {
            self.at += 1;
            if word == "--" {
                self.rest.extend_from_slice(&self.args[self.at..]);
                self.at = self.args.len();
            } else if let Some(long) = word.strip_prefix("--") {
                return Some(self.long(word, long));
            } else if word.len() > 1 && word.starts_with('-') {
                return Some(self.short(word, &word[1..]));
            } else {
                self.rest.push(word);
            }
        }
        None
    }

    fn long(&mut self, word: &'a str, long: &'a str) -> Result<Found<'a>, BadWord<'a>> {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let spec = OPTIONS
            .iter()
            .find(|o| o.long == name)
            .ok_or(BadWord { word, fault: UNKNOWN })?;
        if spec.value == Value::None && attached.is_some() {
            return Err(BadWord {
                word,
                fault: UNWANTED,
            });
        }
        self.found(spec, word, attached)
    }

    fn short(&mut self, word: &'a str, left: &'a str) -> Result<Found<'a>, BadWord<'a>> {
        let mut chars = left.chars();
        let letter = chars.next();
        let after = chars.as_str();
        let spec = OPTIONS
            .iter()
            .find(|o| o.short == letter && letter.is_some())
            .ok_or(BadWord { word, fault: UNKNOWN })?;
        if spec.value != Value::None {
            let attached = (!after.is_empty()).then(|| after.strip_prefix('=').unwrap_or(after));
            return self.found(spec, word, attached);
        }
        if after.starts_with('=') {
            return Err(BadWord {
                word,
                fault: UNWANTED,
            });
        }
        if !after.is_empty() {
            self.cluster = Some((word, after));
        }
        Ok(Found {
            spec,
            value: None,
            word,
        })
    }

    fn found(
        &mut self,
        spec: &'static Spec,
        word: &'a str,
        attached: Option<&'a str>,
    ) -> Result<Found<'a>, BadWord<'a>> {
        let next = self.args.get(self.at).copied();
        let value = match spec.value {
            Value::None => None,
            _ if attached.is_some() => attached,
            Value::Required if next.is_none() => return Err(BadWord { word, fault: MISSING }),
            Value::Optional if next.is_none_or(|next| next.starts_with('-')) => None,
            Value::Required | Value::Optional => {
                self.at += 1;
                next
            }
        };
        Ok(Found { spec, value, word })
    }
}
