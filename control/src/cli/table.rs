//! Aligned tables: text to the left, numbers to the right, columns as wide as what is in them.

use std::io::{self, Write};

/// Which side a column keeps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table under construction. It may be printed in parts: columns only grow wider from one to the next.
#[derive(Debug)]
pub(super) struct Table {
    sides: Vec<Side>,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a title that begins with `>` is of a column of numbers.
    pub(super) fn new(titles: &[&str]) -> Table {
        let side = |title: &&str| {
            if title.starts_with('>') {
                Side::Right
            } else {
                Side::Left
            }
        };
        let mut table = Table {
            sides: titles.iter().map(side).collect(),
            widths: vec![0; titles.len()],
            rows: Vec::new(),
        };
        table.row(
            titles
                .iter()
                .map(|title| title.trim_start_matches('>').to_owned())
                .collect(),
        );
        table
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        self.rows.push(cells);
    }

    /// Rows that wait to be printed.
    pub(super) fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// Prints the rows since the last call.
    ///
    /// # Errors
    /// As writing.
    pub(super) fn print(&mut self, out: &mut impl Write) -> io::Result<()> {
        for row in self.rows.drain(..) {
            let mut line = String::new();
            for ((cell, &width), side) in row.iter().zip(&self.widths).zip(&self.sides) {
                match side {
                    Side::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Side::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_left_and_numbers_right() {
        let mut table = Table::new(&["NAME", ">COUNT"]);
        table.row(vec!["a".to_owned(), "7".to_owned()]);
        table.row(vec!["longer".to_owned(), "1234567".to_owned()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        table.row(vec!["b".to_owned(), "8".to_owned()]);
        table.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "NAME      COUNT\na             7\nlonger  1234567\nb             8\n"
        );
    }
}
