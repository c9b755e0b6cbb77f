//! Where something stands in a configuration file.

use std::fmt;

/// A place in a configuration file. Line and column count from 1, columns in characters (not bytes). The default,
/// 0:0, means the file as a whole: a value that was not written has the place of what it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
