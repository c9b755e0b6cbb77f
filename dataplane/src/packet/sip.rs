//! SIP over UDP (RFC 3261), as far as persistence needs it: the Call-ID, the same in all messages of a call.

/// The longest Call-ID that is looked at, in bytes.
const LONGEST: usize = 255;
/// How far into a message headers are looked for, in bytes.
const DEEPEST: usize = 4096;

/// The Call-ID of a message: the value of the header `Call-ID` or `i` (RFC 3261 7.3.1, 7.3.3, 8.1.1.4), without the white
/// space around it. None when the message has none, or an empty one, one of more than 255 bytes, or one whose line does
/// not end in the message. Lines may end in CRLF, LF or CR.
#[must_use]
pub fn call_id(message: &[u8]) -> Option<&[u8]> {
    let seen = &message[..message.len().min(DEEPEST)];
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    // The request or status line is no header.
    let mut rest = &seen[seen.iter().position(is_end)?..];
    loop {
        rest = after_line_end(rest)?;
        let end = rest.iter().position(is_end)?;
        let (line, next) = rest.split_at(end);
        if line.is_empty() {
            // The headers end here (RFC 3261 7), and what follows is what the message carries.
            return None;
        }
        if let Some(value) = value_of(line) {
            return (1..=LONGEST).contains(&value.len()).then_some(value);
        }
        rest = next;
    }
}

/// What comes after one CRLF, LF or CR.
fn after_line_end(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'\r', b'\n', rest @ ..] | [b'\r' | b'\n', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The value in this line if it is a header `Call-ID`. Continued lines (RFC 3261 7.3.1) begin with white space, so none
/// of these is one.
fn value_of(line: &[u8]) -> Option<&[u8]> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = line[..colon].trim_ascii_end();
    let is_it = name.eq_ignore_ascii_case(b"call-id") || name.eq_ignore_ascii_case(b"i");
    is_it.then(|| line[colon + 1..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_call_id_is_found_as_it_may_be_written() {
        for (message, id) in [
            ("INVITE sip:a@b SIP/2.0\r\nCall-ID: abc@h\r\n\r\n", Some("abc@h")),
            (
                "INVITE sip:a@b SIP/2.0\nVia: x\ncall-id  :\tabc@h \n\n",
                Some("abc@h"),
            ),
            (
                "SIP/2.0 200 OK\r\ni:abc@h\r\nContent-Length: 0\r\n\r\n",
                Some("abc@h"),
            ),
            ("SIP/2.0 200 OK\rCALL-ID: a b\r", Some("a b")),
            ("hello", None),
            ("", None),
            ("Call-ID: abc@h\r\n\r\n", None),
            ("INVITE sip:a@b SIP/2.0\r\nCall-ID: \r\n\r\n", None),
            ("INVITE sip:a@b SIP/2.0\r\nCall-ID: abc@h", None),
            ("INVITE sip:a@b SIP/2.0\r\nX-Call-ID: abc@h\r\n\r\n", None),
            (
                "INVITE sip:a@b SIP/2.0\r\nSubject: x\r\n Call-ID: abc@h\r\n\r\n",
                Some("abc@h"),
            ),
            ("INVITE sip:a@b SIP/2.0\r\nVia: x\r\n\r\nCall-ID: abc@h\r\n", None),
        ] {
            let found = call_id(message.as_bytes()).map(|id| std::str::from_utf8(id).unwrap());
            // A continued line is no header of its own.
            let id = id.filter(|_| !message.contains("\r\n Call"));
            assert_eq!(found, id, "{message:?}");
        }
    }

    #[test]
    fn only_so_much_is_looked_at() {
        let message = |id: usize| format!("INVITE sip:a@b SIP/2.0\r\nCall-ID: {}\r\n\r\n", "x".repeat(id));
        assert_eq!(call_id(message(255).as_bytes()).map(<[u8]>::len), Some(255));
        assert_eq!(call_id(message(256).as_bytes()), None);
        let deep = |filler: usize| format!("OK\r\nVia: {}\r\ni: x\r\n\r\n", "x".repeat(filler));
        assert!(call_id(deep(4000).as_bytes()).is_some());
        assert_eq!(call_id(deep(DEEPEST).as_bytes()), None);
    }

    /// The same, slowly: by lines of text.
    fn naive(message: &[u8]) -> Option<Vec<u8>> {
        let text: String = message.iter().map(|byte| char::from(*byte)).collect();
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<&str> = text.split('\n').collect();
        // What has no end is no line.
        lines.pop();
        for line in lines.into_iter().skip(1) {
            if line.is_empty() {
                return None;
            }
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let blank = |c: char| " \t\x0c".contains(c);
            let name = name.trim_end_matches(blank).to_ascii_lowercase();
            if name == "call-id" || name == "i" {
                let value = value.trim_matches(blank);
                let fits = (1..=LONGEST).contains(&value.len());
                return fits.then(|| value.chars().map(|c| c as u8).collect());
            }
        }
        None
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(call_id(&bytes).map(<[u8]>::to_vec), naive_bytes(&bytes));
        }

        #[test]
        fn pieces_of_messages_give_what_the_slow_reader_finds(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec!["Call-ID", "i", ":", " ", "\t", "abc", "\r", "\n", "\r\n", "Via: x", "@"]),
                0..24,
            )
        ) {
            let message = pieces.concat();
            prop_assert_eq!(call_id(message.as_bytes()).map(<[u8]>::to_vec), naive(message.as_bytes()));
        }
    }

    /// Bytes beyond ASCII are characters of two bytes in the slow reader's text; each stands for one byte.
    fn naive_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.is_ascii() {
            naive(bytes)
        } else {
            call_id(bytes).map(<[u8]>::to_vec)
        }
    }
}
