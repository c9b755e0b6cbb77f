//! YAML text as a tree in which every node and every key knows its place. What a configuration has no use for
//! (anchors, aliases, tags, several documents) is refused here, so that later stages see mappings, lists and
//! scalars only. Scalars stay text: what type a value must have depends on its key, never on its looks.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::Place;
use super::report::{Fault, Report};

/// Collections inside each other; the deepest that the configuration knows is 5.
const DEEPEST: usize = 32;

/// A value as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

/// What kind of value was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Nothing, `~` or `null`.
    Null,
    /// A number, a word or a quoted text.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values in the order of the file, each key once.
    Mapping(Vec<Entry>),
    /// Something that has been reported: readers pass over it in silence.
    Refused,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

/// The one document in `text`. None after an error that leaves nothing to look at, which is then reported.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => {
                if !builder.take(event, place_of(&span.start), report) {
                    return None;
                }
            }
            Err(error) => {
                let place = place_of(error.marker());
                if !report_tabs(text, place, report) {
                    let remedy = if error.info().contains("unknown anchor") {
                        "write the value out here: aliases (`*name`) are not supported"
                    } else if has_ipv6(text, place) {
                        "quote IPv6 addresses: to YAML, brackets and a colon at the end are its own"
                    } else {
                        "check the indentation, and that each quote and bracket is closed"
                    };
                    report.error(
                        place,
                        "",
                        Fault::new(format!("not YAML: {}", error.info()), remedy),
                    );
                }
                return None;
            }
        }
    }
    let empty = builder.root.as_ref().is_none_or(|node| node.kind == Kind::Null);
    if empty {
        let remedy = "write a mapping with at least `ports`; configs/ has examples to start from";
        report.error(Place::default(), "", Fault::new("the file is empty", remedy));
        return None;
    }
    builder.root
}

fn place_of(marker: &Marker) -> Place {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: count(marker.line()).max(1),
        column: count(marker.col()).saturating_add(1),
    }
}

/// Reports tabs in the indentation up to the line after `place`: there they are the likely cause of an error, while
/// in other places YAML allows them. False when there are none.
fn report_tabs(text: &str, place: Place, report: &mut Report) -> bool {
    let mut found = false;
    for (line, content) in (1..=place.line.saturating_add(1)).zip(text.lines()) {
        let blank = content.len() - content.trim_start_matches([' ', '\t']).len();
        if let Some(column) = content[..blank].find('\t') {
            let at = Place {
                line,
                column: place_column(column),
            };
            report.error(
                at,
                "",
                Fault::new(
                    "a tab in the indentation",
                    "indent with spaces: YAML allows no tab here",
                ),
            );
            found = true;
        }
    }
    found
}

/// Whether an IPv6 address may be what the error at `place` comes from: it is noticed on its line or the next.
fn has_ipv6(text: &str, place: Place) -> bool {
    let line = place.line as usize;
    let mut lines = text.lines().skip(line.saturating_sub(2)).take(2);
    lines.any(|line| line.contains("::"))
}

fn place_column(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)
}

/// A collection that has not ended yet.
struct Open {
    place: Place,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Mapping {
        entries: Vec<Entry>,
        seen: HashMap<String, Place>,
        /// The key whose value comes next; its text is none when it was reported, and the value is left out.
        key: Option<(Option<String>, Place)>,
    },
}

/// Makes the tree out of events, without recursion: the depth is the file's.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder {
    /// Takes the next event. False when nothing after it can be understood; that has then been reported.
    fn take(&mut self, event: Event<'_>, place: Place, report: &mut Report) -> bool {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                if self.root.is_some() {
                    let remedy = "put everything into the first one, and remove the `---`";
                    report.error(place, "", Fault::new("a second document in the file", remedy));
                    return false;
                }
            }
            Event::Alias(_) => {
                let remedy = "write the value out here";
                let fault = Fault::new("an alias (`*name`): they are not supported", remedy);
                report.error(place, self.path(), fault);
                let kind = Kind::Refused;
                self.put(Node { place, kind }, report);
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place, report);
                let null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let kind = if null {
                    Kind::Null
                } else {
                    Kind::Scalar(text.into_owned())
                };
                self.put(Node { place, kind }, report);
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place, report);
                return self.begin(place, Items::List(Vec::new()), report);
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place, report);
                let items = Items::Mapping {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    key: None,
                };
                return self.begin(place, items, report);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(report),
        }
        true
    }

    fn refuse(&self, anchor: usize, tagged: bool, place: Place, report: &mut Report) {
        if anchor != 0 {
            let remedy = "remove it, and write the value out where it is needed again";
            report.error(
                place,
                self.path(),
                Fault::new("an anchor (`&name`): they are not supported", remedy),
            );
        }
        if tagged {
            let remedy = "remove it: each key knows the type of its value";
            report.error(
                place,
                self.path(),
                Fault::new("a tag (`!name`): they are not supported", remedy),
            );
        }
    }

    fn begin(&mut self, place: Place, items: Items, report: &mut Report) -> bool {
        if self.open.len() == DEEPEST {
            let problem = format!("more than {DEEPEST} lists and mappings inside each other");
            report.error(
                place,
                self.path(),
                Fault::new(problem, "check the brackets and the indentation"),
            );
            return false;
        }
        self.open.push(Open { place, items });
        true
    }

    fn end(&mut self, report: &mut Report) {
        if let Some(open) = self.open.pop() {
            let kind = match open.items {
                Items::List(nodes) => Kind::List(nodes),
                Items::Mapping { entries, .. } => Kind::Mapping(entries),
            };
            let node = Node {
                place: open.place,
                kind,
            };
            self.put(node, report);
        }
    }

    /// Gives a finished node to what holds it.
    fn put(&mut self, node: Node, report: &mut Report) {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(nodes)) => nodes.push(node),
            Some(Items::Mapping { entries, seen, key }) => match key.take() {
                Some((Some(text), place)) => entries.push(Entry {
                    key: text,
                    place,
                    value: node,
                }),
                Some((None, _)) => {}
                None => match key_text(&node, seen) {
                    Ok(text) => *key = Some((text, node.place)),
                    Err(fault) => {
                        *key = Some((None, node.place));
                        report.error(node.place, self.path(), fault);
                    }
                },
            },
        }
    }

    /// The path of the node that comes next.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match &open.items {
                Items::List(nodes) => path.push_str(&format!("[{}]", nodes.len())),
                Items::Mapping { key, .. } => {
                    if let Some((Some(key), _)) = key {
                        let dot = if path.is_empty() { "" } else { "." };
                        path.push_str(&format!("{dot}{}", shown(key)));
                    }
                }
            }
        }
        path
    }
}

/// The key that `node` is; none when what is wrong with it has been reported.
fn key_text(node: &Node, seen: &mut HashMap<String, Place>) -> Result<Option<String>, Fault> {
    let text = match &node.kind {
        Kind::Refused => return Ok(None),
        Kind::Scalar(text) => text,
        Kind::Null | Kind::List(_) | Kind::Mapping(_) => {
            let remedy =
                "write `key: value` with a word as the key, and quote a text that has `: ` or braces in it";
            return Err(Fault::new("a key that is not a word", remedy));
        }
    };
    if text == "<<" {
        return Err(Fault::new(
            "a merge key (`<<`): they are not supported",
            "write the keys out here",
        ));
    }
    if let Some(first) = seen.get(text) {
        let problem = format!(
            "the key `{}` is there twice, first on line {}",
            shown(text),
            first.line
        );
        return Err(Fault::new(problem, "keep one of them"));
    }
    seen.insert(text.clone(), node.place);
    Ok(Some(text.clone()))
}

/// `text` fit for a message: on one line, without control characters, cut after 60 characters.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut out: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        out.push_str("...");
    }
    out
}
