//! The expected figures, and what a difference means. It reads and writes a file, and knows nothing of how figures come
//! about.

use serde_json::Value;
use std::fmt::Write;

/// By how much a figure may rise when the compiler is the recorded one.
const SAME_COMPILER: f64 = 0.05;
/// By how much with another one, whose code differs without anybody's doing.
const OTHER_COMPILER: f64 = 0.10;
/// How to record figures.
pub(crate) const BLESS: &str = "TIDEGATE_BLESS=1 ./scripts/test instructions";

/// What is counted with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Compiler {
    /// Its version: `1.95.0`.
    pub(crate) release: String,
    /// The target: `x86_64-unknown-linux-gnu`.
    pub(crate) target: String,
}

impl Compiler {
    /// From what `rustc -vV` prints.
    pub(crate) fn from_verbose(text: &str) -> Option<Compiler> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        Some(Compiler {
            release: field("release: ")?.to_owned(),
            target: field("host: ")?.to_owned(),
        })
    }
}

/// Instructions for each packet of a row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Figure {
    pub(crate) row: String,
    pub(crate) instructions: f64,
}

/// What is recorded.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Expected {
    pub(crate) compiler: Compiler,
    pub(crate) figures: Vec<Figure>,
}

/// What a run means.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Verdict {
    /// The table, for people.
    pub(crate) table: String,
    /// What is wrong; one line each.
    pub(crate) failures: Vec<String>,
    /// What to do, where nothing is wrong.
    pub(crate) hints: Vec<String>,
}

impl Expected {
    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Expected, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let word = |key: &str| {
            value[key]
                .as_str()
                .map(str::to_owned)
                .ok_or(format!("no {key:?}"))
        };
        let rows = value["instructions"].as_object().ok_or("no \"instructions\"")?;
        let figure = |(row, value): (&String, &Value)| {
            let instructions = value.as_f64().filter(|value| *value > 0.0);
            Ok(Figure {
                row: row.clone(),
                instructions: instructions.ok_or(format!("{row}: no positive number"))?,
            })
        };
        Ok(Expected {
            compiler: Compiler {
                release: word("rustc")?,
                target: word("target")?,
            },
            figures: rows.iter().map(figure).collect::<Result<_, String>>()?,
        })
    }

    /// The file's text.
    pub(crate) fn print(&self) -> String {
        let mut text = String::from("{\n");
        let _ = writeln!(
            text,
            "  \"about\": \"instructions for each packet, or for each connection where rows are of lives; record anew with {BLESS}\","
        );
        let _ = writeln!(text, "  \"rustc\": \"{}\",", self.compiler.release);
        let _ = writeln!(text, "  \"target\": \"{}\",", self.compiler.target);
        let lines = self.figures.iter();
        let lines = lines.map(|figure| format!("    \"{}\": {:.1}", figure.row, figure.instructions));
        let lines: Vec<_> = lines.collect();
        let _ = writeln!(text, "  \"instructions\": {{\n{}\n  }}\n}}", lines.join(",\n"));
        text
    }

    /// Holds a run against this.
    pub(crate) fn judge(&self, run: &Expected) -> Verdict {
        let mut verdict = Verdict::default();
        let same = self.compiler == run.compiler;
        let limit = if same { SAME_COMPILER } else { OTHER_COMPILER };
        if !same {
            verdict.hints.push(format!(
                "recorded with rustc {}, this is {}: up to {:.0} % more are allowed, instead of {:.0} %",
                self.compiler.release,
                run.compiler.release,
                OTHER_COMPILER * 100.0,
                SAME_COMPILER * 100.0
            ));
        }
        let _ = writeln!(
            verdict.table,
            "{:<22} {:>12} {:>9} {:>8}",
            "row", "instructions", "expected", "change"
        );
        for figure in &run.figures {
            self.judge_row(figure, limit, &mut verdict);
        }
        let known = |row: &str| run.figures.iter().any(|figure| figure.row == row);
        for gone in self.figures.iter().filter(|figure| !known(&figure.row)) {
            verdict
                .failures
                .push(format!("{}: expected, and not counted any more", gone.row));
        }
        verdict
    }

    fn judge_row(&self, figure: &Figure, limit: f64, verdict: &mut Verdict) {
        let (row, now) = (&figure.row, figure.instructions);
        let Some(before) = self.figures.iter().find(|other| other.row == *row) else {
            let _ = writeln!(verdict.table, "{row:<22} {now:>12.1} {:>9} {:>8}", "-", "-");
            verdict.failures.push(format!("{row}: not recorded yet"));
            return;
        };
        let before = before.instructions;
        let change = now / before - 1.0;
        let percent = change * 100.0;
        let _ = writeln!(
            verdict.table,
            "{row:<22} {now:>12.1} {before:>9.1} {percent:>+7.1}%"
        );
        let moved = format!("{row}: {before:.1} -> {now:.1} instructions a packet ({percent:+.1} %)");
        if change > limit {
            let allowed = limit * 100.0;
            verdict
                .failures
                .push(format!("{moved}, {allowed:.0} % more are allowed"));
        } else if change < -limit {
            verdict
                .hints
                .push(format!("{moved}: better; record it, so that it stays so"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler(release: &str) -> Compiler {
        Compiler {
            release: release.to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
        }
    }

    fn of(release: &str, figures: &[(&str, f64)]) -> Expected {
        let figure = |&(row, instructions): &(&str, f64)| Figure {
            row: row.to_owned(),
            instructions,
        };
        Expected {
            compiler: compiler(release),
            figures: figures.iter().map(figure).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let expected = of("1.95.0", &[("a", 312.4), ("b", 7.0)]);
        assert_eq!(Expected::parse(&expected.print()), Ok(expected));
        for bad in [
            "",
            "{}",
            "{\"rustc\":\"1\",\"target\":\"t\",\"instructions\":{\"a\":0}}",
        ] {
            assert!(Expected::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_compiler_is_read() {
        let text = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(Compiler::from_verbose(text), Some(compiler("1.95.0")));
        assert_eq!(Compiler::from_verbose("rustc"), None);
    }

    #[test]
    fn a_rise_fails_and_a_fall_is_told() {
        let recorded = of("1", &[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let verdict = recorded.judge(&of("1", &[("a", 105.1), ("b", 104.9), ("c", 94.9)]));
        assert_eq!(
            verdict.failures,
            ["a: 100.0 -> 105.1 instructions a packet (+5.1 %), 5 % more are allowed"]
        );
        assert_eq!(verdict.hints.len(), 1);
        assert!(
            verdict.hints[0].starts_with("c: 100.0 -> 94.9 "),
            "{:?}",
            verdict.hints
        );
        assert_eq!(verdict.table.lines().count(), 4);
    }

    #[test]
    fn another_compiler_is_allowed_more_and_not_everything() {
        let recorded = of("1", &[("a", 100.0), ("b", 100.0)]);
        let verdict = recorded.judge(&of("2", &[("a", 109.0), ("b", 111.0)]));
        assert_eq!(verdict.failures.len(), 1);
        assert!(verdict.failures[0].starts_with("b: "), "{:?}", verdict.failures);
        assert!(verdict.hints[0].starts_with("recorded with rustc 1, this is 2"));
    }

    #[test]
    fn rows_come_and_go_only_with_the_file() {
        let recorded = of("1", &[("a", 100.0)]);
        let verdict = recorded.judge(&of("1", &[("b", 100.0)]));
        assert_eq!(
            verdict.failures,
            ["b: not recorded yet", "a: expected, and not counted any more"]
        );
    }
}
