//! Collects findings while a file is read and checked, so that all of them come out at once.

use super::{ConfigErrors, Diagnostic, Place};

/// What is wrong with a value, before it is known where the value stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) problem: String,
    pub(super) remedy: String,
}

impl Fault {
    pub(super) fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault {
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// The findings so far.
pub(super) struct Report {
    file: String,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    suggestions_left: u32,
}

impl Report {
    pub(super) fn new(file: &str) -> Report {
        Report {
            file: file.to_owned(),
            errors: Vec::new(),
            warnings: Vec::new(),
            // A search for a similar name looks at every name: bounded, so that a file of 10,000 services with a
            // mistake in each is answered as fast as a right one.
            suggestions_left: 100,
        }
    }

    pub(super) fn error(&mut self, place: Place, path: impl ToString, fault: Fault) {
        let found = self.diagnostic(place, path.to_string(), fault);
        self.errors.push(found);
    }

    pub(super) fn warn(&mut self, place: Place, path: impl ToString, fault: Fault) {
        let found = self.diagnostic(place, path.to_string(), fault);
        self.warnings.push(found);
    }

    /// The result itself, or reports what is wrong with it.
    pub(super) fn check<T>(
        &mut self,
        place: Place,
        path: impl ToString,
        value: Result<T, Fault>,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(fault) => {
                self.error(place, path, fault);
                None
            }
        }
    }

    /// The candidate most like `word`, while the budget lasts.
    pub(super) fn suggest<'a>(
        &mut self,
        word: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.suggestions_left = self.suggestions_left.checked_sub(1)?;
        super::suggest::nearest(word, candidates)
    }

    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Ends the collection: the warnings when there are no errors, else everything, both in the order of places.
    pub(super) fn finish(self) -> Result<Vec<Diagnostic>, ConfigErrors> {
        let found = self.into_errors();
        if found.errors.is_empty() {
            Ok(found.warnings)
        } else {
            Err(found)
        }
    }

    /// Ends the collection after an error.
    pub(super) fn into_errors(mut self) -> ConfigErrors {
        for list in [&mut self.errors, &mut self.warnings] {
            list.sort();
            list.dedup();
        }
        ConfigErrors {
            errors: self.errors,
            warnings: self.warnings,
        }
    }

    fn diagnostic(&self, place: Place, path: String, fault: Fault) -> Diagnostic {
        Diagnostic {
            place,
            file: self.file.clone(),
            path,
            problem: fault.problem,
            remedy: fault.remedy,
        }
    }
}
