//! Verdicts, and the report that they add up to.

use super::facts::Facts;
use super::rules::{Event, Expected, Rule};
use super::unsupported::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Of a rule: what differs, and why.
type Reason = (&'static str, &'static str);

/// What became of one scenario.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed,
    /// As expected under these rules.
    Deviating(BTreeSet<Reason>),
    /// Several workers: right by the rules of [`turns`](super::turns).
    InTurns,
    /// Several workers: right with clients dealt out in another way.
    ByAnotherSeed,
    Unsupported(&'static Row),
    Failed(Vec<Failure>),
}

/// One thing that was not as expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// Which event, from 0; `None` before the first and after the last.
    pub(super) event: Option<usize>,
    pub(super) op: String,
    pub(super) expected: String,
    pub(super) seen: String,
}

/// Collects what one scenario shows.
pub(super) struct Check<'a> {
    rules: &'a [Rule],
    facts: &'a Facts,
    event: Option<usize>,
    op: String,
    came: Vec<Vec<u8>>,
    failures: Vec<Failure>,
    reasons: BTreeSet<Reason>,
    skipped: Option<&'static Row>,
    checks: usize,
    any_server: bool,
}

impl<'a> Check<'a> {
    pub(super) fn new(rules: &'a [Rule], facts: &'a Facts) -> Check<'a> {
        Check {
            rules,
            facts,
            event: None,
            op: String::new(),
            came: Vec::new(),
            failures: Vec::new(),
            reasons: BTreeSet::new(),
            skipped: None,
            checks: 0,
            any_server: false,
        }
    }

    /// Which server packets go to is not compared from here on.
    pub(super) fn let_any_server(&mut self) {
        self.any_server = true;
    }

    /// Whether that is not compared.
    pub(super) fn lets_any_server(&self) -> bool {
        self.any_server
    }

    /// From here on it is about this event.
    pub(super) fn at(&mut self, event: Option<usize>, op: &str) {
        self.event = event;
        op.clone_into(&mut self.op);
        self.came.clear();
    }

    /// The packets of this event that came in.
    pub(super) fn came(&mut self, packets: Vec<Vec<u8>>) {
        self.came = packets;
    }

    /// What the scenario needs.
    pub(super) fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// A part that is not compared.
    pub(super) fn skip(&mut self, row: &'static Row) {
        self.skipped = Some(row);
    }

    pub(super) fn fail(&mut self, expected: &str, seen: &str) {
        let (expected, seen) = (expected.to_owned(), seen.to_owned());
        self.failures.push(Failure {
            event: self.event,
            op: self.op.clone(),
            expected,
            seen,
        });
    }

    /// Takes another's verdict on what was recorded and what is seen.
    pub(super) fn judge(&mut self, expected: &str, seen: &str, verdict: Result<(), String>) {
        self.checks += 1;
        if let Err(problem) = verdict {
            self.fail(expected, &format!("{seen}: {problem}"));
        }
    }

    /// Compares; a rule that changes the expectation is asked first.
    pub(super) fn expect(&mut self, expected: Expected, seen: &Expected) {
        // A setting that is taken shows nothing of what the gateway then does.
        self.checks += usize::from(!matches!(expected, Expected::Setting(..)));
        if expected == *seen {
            return;
        }
        let event = Event { came: &self.came };
        for rule in self.rules {
            if let Some(changed) = (rule.change)(self.facts, &event, &expected)
                && changed == *seen
            {
                self.reasons.insert((rule.what, rule.reason));
                return;
            }
        }
        self.fail(&expected.to_string(), &seen.to_string());
    }

    pub(super) fn verdict(mut self) -> Verdict {
        if self.checks == 0 && self.failures.is_empty() {
            self.at(None, "");
            self.fail("something to compare", "nothing");
        }
        if !self.failures.is_empty() {
            Verdict::Failed(self.failures)
        } else if let Some(row) = self.skipped {
            Verdict::Unsupported(row)
        } else if self.reasons.is_empty() {
            Verdict::Passed
        } else {
            Verdict::Deviating(self.reasons)
        }
    }
}

/// All scenarios of a run.
#[derive(Default, Debug)]
pub struct Report {
    passed: usize,
    deviating: BTreeMap<Reason, Vec<String>>,
    deviated: usize,
    in_turns: usize,
    by_another_seed: Vec<String>,
    unsupported: BTreeMap<(u8, &'static str), usize>,
    failed: usize,
    lines: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, file: &str, scenario: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Deviating(reasons) => {
                self.deviated += 1;
                for reason in reasons {
                    self.deviating
                        .entry(reason)
                        .or_default()
                        .push(format!("{file}: {scenario}"));
                }
            }
            Verdict::InTurns => self.in_turns += 1,
            Verdict::ByAnotherSeed => self.by_another_seed.push(format!("{file}: {scenario}")),
            Verdict::Unsupported(row) => *self.unsupported.entry((row.issue, row.what)).or_default() += 1,
            Verdict::Failed(failures) => {
                self.failed += 1;
                for failure in failures {
                    let event = failure
                        .event
                        .map_or_else(|| "-".to_owned(), |event| event.to_string());
                    self.lines.push(format!(
                        "FAILED {file}: {scenario}: event {event} ({})\n  expected {}\n  seen     {}",
                        failure.op, failure.expected, failure.seen
                    ));
                }
            }
        }
    }

    /// A folder or file that cannot be replayed at all.
    pub(super) fn broken(&mut self, path: &Path, problem: &str) {
        self.failed += 1;
        self.lines.push(format!("FAILED {}: {problem}", path.display()));
    }

    /// Whether nothing failed and something was replayed.
    #[must_use]
    pub fn good(&self) -> bool {
        self.failed == 0 && self.passed + self.deviated > 0
    }

    /// How much failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The last line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.summary_of(self.failed)
    }

    /// The same with another number of failures.
    #[must_use]
    pub fn summary_of(&self, failed: usize) -> String {
        let unsupported: usize = self.unsupported.values().sum();
        let (passed, deviating) = (self.passed, self.deviated);
        format!("golden: {passed} passed, {deviating} deviating, {unsupported} unsupported, {failed} failed")
    }

    /// Every failure: where, what was expected, what was seen.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.lines
    }

    /// Prints failures, deviations with their reasons, what is unsupported, and all of it in numbers.
    pub fn print(&self, gateway: &str) {
        self.lines.iter().for_each(|line| println!("{gateway}: {line}"));
        for ((what, reason), scenarios) in &self.deviating {
            println!(
                "{gateway}: deviating, {} scenarios: {what}: {reason}",
                scenarios.len()
            );
        }
        for ((issue, what), count) in &self.unsupported {
            println!("{gateway}: unsupported until issue {issue}, {count} scenarios: {what}");
        }
        for scenario in &self.by_another_seed {
            println!("{gateway}: under another seed: {scenario}");
        }
        if self.failed == 0 && !self.good() {
            println!("{gateway}: nothing was replayed");
        }
        let unsupported: usize = self.unsupported.values().sum();
        println!(
            "{gateway}: {} to the letter, {} in other turns, {} under another seed, {} deviating, {unsupported} \
             unsupported, {} failed",
            self.passed,
            self.in_turns,
            self.by_another_seed.len(),
            self.deviated,
            self.failed
        );
    }
}
