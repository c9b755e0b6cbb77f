//! What is wrong with a configuration file: every finding with its place, its cause and its remedy.

use std::fmt;

use super::Place;

/// One finding about a configuration file. Shown as `file:line:column: path: problem; remedy`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Diagnostic {
    /// The place, or 0:0 for the file as a whole.
    pub place: Place,
    /// The file as it was named to [`load`](super::load) or [`parse`](super::parse).
    pub file: String,
    /// The path in the document, such as `services[2].listen`; empty for the document as a whole.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.place != Place::default() {
            write!(f, ":{}", self.place)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// All errors of a configuration file, in the order of their places; never empty. Displays as one line each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ConfigErrors {
    /// What makes the file unusable.
    pub errors: Vec<Diagnostic>,
    /// What else was found in it.
    pub warnings: Vec<Diagnostic>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
