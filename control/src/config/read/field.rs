//! Access to the tree: mappings by key, lists by index, scalars as text, each with its path for messages.

use std::fmt;

use super::At;
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema::Section;
use crate::config::suggest;
use crate::config::yaml::{Entry, Kind, Node, shown};

/// Where a node hangs in the tree. It is put into words only for a message.
#[derive(Clone, Copy, Debug)]
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(&shown(key)),
            Path::Key(above, key) => write!(f, "{above}.{}", shown(key)),
            Path::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// A list that may be written as its only element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OneOrMore<T> {
    /// By the index in the file; none where an element could not be read, which has been reported.
    pub(crate) items: Vec<Option<T>>,
    /// Whether the only element stands for the list.
    alone: bool,
}

impl<T> OneOrMore<T> {
    /// A key that is missing.
    pub(crate) fn none() -> OneOrMore<T> {
        OneOrMore {
            items: Vec::new(),
            alone: false,
        }
    }

    /// The elements that could be read, with their index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    /// Whether an element could not be read.
    pub(crate) fn incomplete(&self) -> bool {
        self.items.iter().any(Option::is_none)
    }

    /// The path of element `index`, when that of the whole is `path`.
    pub(crate) fn path(&self, path: &str, index: usize) -> String {
        match self.alone {
            true => path.to_owned(),
            false => format!("{path}[{index}]"),
        }
    }
}

/// A node, and how it is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'p> {
    node: &'p Node,
    path: Path<'p>,
}

impl<'p> Field<'p> {
    pub(crate) fn root(node: &'p Node) -> Field<'p> {
        let path = Path::Root;
        Field { node, path }
    }

    pub(crate) fn place(&self) -> Place {
        self.node.place
    }

    pub(crate) fn error(&self, fault: Fault, report: &mut Report) {
        report.error(self.node.place, self.path, fault);
    }

    pub(crate) fn warn(&self, fault: Fault, report: &mut Report) {
        report.warn(self.node.place, self.path, fault);
    }

    /// The text of a scalar. `expected` says what belongs here, such as "an IPv4 address".
    pub(crate) fn text(&self, expected: &str, report: &mut Report) -> Option<&'p str> {
        match &self.node.kind {
            Kind::Scalar(text) => Some(text),
            _ => self.wrong_kind(expected, report),
        }
    }

    /// The value that `parse` makes of a scalar.
    pub(crate) fn value<T>(
        &self,
        expected: &str,
        report: &mut Report,
        parse: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<At<T>> {
        let text = self.text(expected, report)?;
        let value = report.check(self.node.place, self.path, parse(text))?;
        let place = self.node.place;
        Some(At { value, place })
    }

    /// What `each` makes of the elements of a list; none when this is no list.
    pub(crate) fn list<T>(
        &self,
        report: &mut Report,
        mut each: impl FnMut(Field<'_>, &mut Report) -> T,
    ) -> Option<Vec<T>> {
        let Kind::List(nodes) = &self.node.kind else {
            return self.wrong_kind("a list", report);
        };
        let element = |(index, node)| {
            let path = Path::Index(&self.path, index);
            each(Field { node, path }, report)
        };
        Some(nodes.iter().enumerate().map(element).collect())
    }

    /// What `each` makes of the elements of a list, or of a scalar that stands alone as a list of one. One none when
    /// this is neither.
    pub(crate) fn one_or_more<T>(
        &self,
        report: &mut Report,
        mut each: impl FnMut(Field<'_>, &mut Report) -> Option<T>,
    ) -> OneOrMore<T> {
        let (items, alone) = match &self.node.kind {
            Kind::Scalar(_) => (vec![each(*self, report)], true),
            Kind::List(_) => (self.list(report, each).unwrap_or_default(), false),
            _ => (vec![self.wrong_kind("a value or a list of values", report)], true),
        };
        OneOrMore { items, alone }
    }

    /// Whether this is that word.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.node.kind, Kind::Scalar(text) if text == word)
    }

    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.node.kind, Kind::List(nodes) if nodes.is_empty())
    }

    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self.node.kind, Kind::Scalar(_))
    }

    fn wrong_kind<T>(&self, expected: &str, report: &mut Report) -> Option<T> {
        let found = match &self.node.kind {
            Kind::Refused => return None,
            Kind::Null => {
                let fault = Fault::new("nothing is written here", format!("write {expected}"));
                self.error(fault, report);
                return None;
            }
            Kind::Scalar(text) => format!("`{}`", shown(text)),
            Kind::List(_) => "a list".to_owned(),
            Kind::Mapping(_) => "a mapping".to_owned(),
        };
        self.error(
            Fault::new(format!("found {found}"), format!("write {expected}")),
            report,
        );
        None
    }
}

/// A mapping whose keys have been compared with the section that it is. Empty when the section is not there, or is
/// no mapping.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'p> {
    entries: &'p [Entry],
    path: Path<'p>,
    place: Place,
    section: &'static Section,
    /// Whether to say what is missing.
    present: bool,
    unknown: bool,
    /// What unknown keys were probably meant to be: these are not missing.
    mistyped: Vec<&'static str>,
}

impl<'p> Fields<'p> {
    /// The mapping in `field`. Keys that `section` does not have are reported.
    pub(crate) fn open(field: Field<'p>, section: &'static Section, report: &mut Report) -> Fields<'p> {
        let mut fields = Fields {
            entries: &[],
            path: field.path,
            place: field.node.place,
            section,
            present: false,
            unknown: false,
            mistyped: Vec::new(),
        };
        if let Kind::Mapping(entries) = &field.node.kind {
            fields.entries = entries;
            fields.present = true;
            fields.refuse_unknown(report);
        } else {
            let known = section.keys.join("`, `");
            field.wrong_kind::<()>(&format!("a mapping with the keys `{known}`"), report);
        }
        fields
    }

    /// The mapping in `field`, or an empty one of which nothing is required.
    pub(crate) fn open_optional(
        field: Option<Field<'p>>,
        section: &'static Section,
        report: &mut Report,
    ) -> Fields<'p> {
        field.map_or(
            Fields {
                entries: &[],
                path: Path::Root,
                place: Place::default(),
                section,
                present: false,
                unknown: false,
                mistyped: Vec::new(),
            },
            |field| Fields::open(field, section, report),
        )
    }

    fn refuse_unknown(&mut self, report: &mut Report) {
        let keys = self.section.keys;
        for entry in self.entries.iter().filter(|entry| !keys.contains(&&*entry.key)) {
            let nearest = suggest::nearest(&entry.key, keys.iter().copied());
            let remedy = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None if entry.key.contains('=') => {
                    "quote the text before it: inside braces a comma ends a text without quotes".to_owned()
                }
                None => format!("the keys here are `{}`", keys.join("`, `")),
            };
            let path = Path::Key(&self.path, &entry.key);
            report.error(entry.place, path, Fault::new("unknown key", remedy));
            self.unknown = true;
            self.mistyped
                .extend(keys.iter().copied().filter(|key| Some(*key) == nearest));
        }
    }

    /// Whether there was a key that the section does not have.
    pub(crate) fn has_unknown(&self) -> bool {
        self.unknown
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// How the mapping is reached.
    pub(crate) fn path(&self) -> impl fmt::Display {
        self.path
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &'static str) -> Option<Field<'_>> {
        debug_assert!(
            self.section.keys.contains(&key),
            "`{}` has no `{key}` in the schema",
            self.section.path
        );
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        let path = Path::Key(&self.path, key);
        let node = &entry.value;
        Some(Field { node, path })
    }

    /// The value of `key`. When the key is missing, that is reported, and `example` says what to write.
    pub(crate) fn required(
        &self,
        key: &'static str,
        example: &str,
        report: &mut Report,
    ) -> Option<Field<'_>> {
        let field = self.get(key);
        if field.is_none() && self.present && !self.mistyped.contains(&key) {
            let fault = Fault::new(format!("`{key}` is missing"), format!("write {example}"));
            report.error(self.place, self.path, fault);
        }
        field
    }

    /// What `each` makes of the elements of the list `key`, which may be missing.
    pub(crate) fn list<T>(
        &self,
        key: &'static str,
        report: &mut Report,
        each: impl FnMut(Field<'_>, &mut Report) -> T,
    ) -> Vec<T> {
        self.get(key)
            .and_then(|field| field.list(report, each))
            .unwrap_or_default()
    }

    /// What `each` makes of the elements of the list `key`, which must be there and have elements.
    pub(crate) fn required_list<T>(
        &self,
        key: &'static str,
        example: &str,
        report: &mut Report,
        each: impl FnMut(Field<'_>, &mut Report) -> T,
    ) -> Vec<T> {
        let Some(field) = self.required(key, example, report) else {
            return Vec::new();
        };
        let list = field.list(report, each);
        if list.as_ref().is_some_and(Vec::is_empty) {
            field.error(Fault::new("an empty list", format!("write {example}")), report);
        }
        list.unwrap_or_default()
    }
}
