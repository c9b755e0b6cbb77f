//! Names: each once, and each that is used exists.

use std::collections::HashMap;

use crate::config::read::{At, OneOrMore};
use crate::config::report::{Fault, Report};
use crate::config::yaml::shown;

/// The names of one kind of thing.
pub(crate) struct Names<'r> {
    kind: &'static str,
    section: &'static str,
    index: HashMap<&'r str, usize>,
    /// In the order of the file, so that a suggestion does not depend on a hash.
    ordered: Vec<&'r str>,
}

impl<'r> Names<'r> {
    /// The names of the elements of `section`, which are `kind`s; none for those that could not be read.
    pub(crate) fn collect(
        kind: &'static str,
        section: &'static str,
        names: impl Iterator<Item = Option<&'r At<String>>>,
        report: &mut Report,
    ) -> Names<'r> {
        let mut lines = Vec::new();
        let mut index: HashMap<&str, usize> = HashMap::new();
        let mut ordered = Vec::new();
        for (position, name) in names.enumerate() {
            lines.push(name.map_or(0, |name| name.place.line));
            let Some(name) = name else { continue };
            if let Some(first) = index.get(&*name.value) {
                let line = lines.get(*first).copied().unwrap_or_default();
                let problem = format!(
                    "`{}` is the name of {section}[{first}] already, on line {line}",
                    name.value
                );
                let fault = Fault::new(problem, format!("give each {kind} a name of its own"));
                report.error(name.place, format!("{section}[{position}].name"), fault);
                continue;
            }
            index.insert(&name.value, position);
            ordered.push(&*name.value);
        }
        Names {
            kind,
            section,
            index,
            ordered,
        }
    }

    /// The index of the thing called `name`, which is written at `path`.
    pub(crate) fn find(&self, name: &At<String>, path: impl ToString, report: &mut Report) -> Option<usize> {
        if let Some(index) = self.index.get(&*name.value) {
            return Some(*index);
        }
        let remedy = match report.suggest(&name.value, self.ordered.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if self.ordered.is_empty() => format!("define it under `{}`, which has none", self.section),
            None => format!("there is {}; or define it under `{}`", self.some(), self.section),
        };
        let problem = format!("no {} is called `{}`", self.kind, shown(&name.value));
        report.error(name.place, path, Fault::new(problem, remedy));
        None
    }

    /// The indices of the things that a list at `path` names, each once.
    pub(crate) fn find_each(
        &self,
        names: &OneOrMore<At<String>>,
        path: &str,
        report: &mut Report,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for (item, name) in names.iter() {
            let path = names.path(path, item);
            let Some(index) = self.find(name, &path, report) else {
                continue;
            };
            if found.contains(&index) {
                let problem = format!("`{}` is there twice", name.value);
                let remedy = format!("write each {} once", self.kind);
                report.error(name.place, path, Fault::new(problem, remedy));
                continue;
            }
            found.push(index);
        }
        found
    }

    /// A few of the names, to show what could be written.
    pub(crate) fn some(&self) -> String {
        const FEW: usize = 5;
        let mut text = format!(
            "`{}`",
            self.ordered
                .iter()
                .take(FEW)
                .copied()
                .collect::<Vec<_>>()
                .join("`, `")
        );
        if self.ordered.len() > FEW {
            text.push_str(", ...");
        }
        text
    }

    /// The first of the names.
    pub(crate) fn first(&self) -> Option<&'r str> {
        self.ordered.first().copied()
    }
}
