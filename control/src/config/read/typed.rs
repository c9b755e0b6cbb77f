//! Values of one type under a key, with their default: what most sections are made of.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::field::Fields;
use super::{At, value};
use crate::config::report::{Fault, Report};
use crate::config::yaml::shown;

/// The number under `key`, or `default`. `range` lies within `T`.
pub(crate) fn number<T: TryFrom<u64>>(
    fields: &Fields<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
    default: T,
    report: &mut Report,
) -> T {
    optional_number(fields, key, range, report).unwrap_or(default)
}

/// The number under `key`, if there is one.
pub(crate) fn optional_number<T: TryFrom<u64>>(
    fields: &Fields<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
    report: &mut Report,
) -> Option<T> {
    placed_number(fields, key, range, report).map(|at| at.value)
}

/// The number under `key` with its place, if there is one.
pub(crate) fn placed_number<T: TryFrom<u64>>(
    fields: &Fields<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
    report: &mut Report,
) -> Option<At<T>> {
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    let number = fields
        .get(key)?
        .value(&expected, report, |text| value::number(text, range))?;
    let value = T::try_from(number.value).ok()?;
    let place = number.place;
    Some(At { value, place })
}

/// The `true` or `false` under `key`, or `default`.
pub(crate) fn flag(fields: &Fields<'_>, key: &'static str, default: bool, report: &mut Report) -> bool {
    let field = fields.get(key);
    field
        .and_then(|field| field.value("`true` or `false`", report, value::flag))
        .map_or(default, |at| at.value)
}

/// The word under `key`, or the default.
pub(crate) fn word<T: Copy + Default>(
    fields: &Fields<'_>,
    key: &'static str,
    words: &[(&str, T)],
    report: &mut Report,
) -> T {
    optional_word(fields, key, words, report).unwrap_or_default()
}

/// The word under `key`, if there is one.
pub(crate) fn optional_word<T: Copy>(
    fields: &Fields<'_>,
    key: &'static str,
    words: &[(&str, T)],
    report: &mut Report,
) -> Option<T> {
    let expected = value::listed(words.iter().map(|(word, _)| *word));
    let field = fields.get(key)?;
    let word = field.value(&expected, report, |text| value::choice(text, words))?;
    Some(word.value)
}

/// A text under `key` in which `fits` holds for each character.
pub(crate) fn plain_text(
    fields: &Fields<'_>,
    key: &'static str,
    expected: &str,
    fits: impl Fn(char) -> bool,
    report: &mut Report,
) -> Option<String> {
    let check = |text: &str| match !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(Fault::new(
            format!("`{}` cannot be used here", shown(text)),
            format!("write {expected}"),
        )),
    };
    Some(fields.get(key)?.value(expected, report, check)?.value)
}

pub(crate) fn account(
    fields: &Fields<'_>,
    key: &'static str,
    expected: &str,
    report: &mut Report,
) -> Option<String> {
    plain_text(
        fields,
        key,
        expected,
        |c| c.is_ascii_alphanumeric() || "-_.$".contains(c),
        report,
    )
}

/// An absolute path of at most `most` bytes.
pub(crate) fn path(text: &str, most: usize) -> Result<PathBuf, Fault> {
    if !text.starts_with('/') || text.contains('\0') {
        let problem = format!("`{}` is not an absolute path", shown(text));
        return Err(Fault::new(problem, "write a path that starts with /"));
    }
    if text.len() > most {
        let problem = format!("a path of {} bytes", text.len());
        return Err(Fault::new(problem, format!("write one of at most {most}")));
    }
    Ok(PathBuf::from(text))
}
