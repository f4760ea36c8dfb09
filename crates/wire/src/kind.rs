//! The kind of a line: its `type` and `subtype`.

use std::fmt;

use crate::delta_head::{self, delta_head};
use crate::json::{Text, skip_loosely, string_end_loosely};

/// A line's `type`, with its `subtype` if it has one.
///
/// Displayed as `type` or `type/subtype`: `assistant`, `system/init`, `control_request/interrupt`.
/// A control message has its subtype inside `request` or `response`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind<'a> {
    pub name: Text<'a>,
    pub subtype: Option<Text<'a>>,
}

impl<'a> Kind<'a> {
    pub(crate) fn new(name: Text<'a>) -> Self {
        Self { name, subtype: None }
    }

    /// Finds the kind of a line with one event, without reading the rest of it.
    ///
    /// This is several times faster than [`read`](crate::read), for lines that are forwarded in any
    /// case. On a line of valid JSON the result is that of `read`, including the last of duplicate
    /// keys. On other lines the result is unspecified.
    ///
    /// ```
    /// use towpath_wire::Kind;
    ///
    /// let kind = Kind::find(br#"{"uuid":"0","subtype":"init","type":"system"}"#).unwrap();
    /// assert_eq!(kind.to_string(), "system/init");
    /// ```
    pub fn find(line: &'a [u8]) -> Option<Self> {
        let Some((name, subtype)) = find_in(line) else { return find_rpc(line) };
        let inner = match name {
            b"\"control_request\"" => envelope_subtype(line, b"request"),
            b"\"control_response\"" => envelope_subtype(line, b"response"),
            _ => None,
        };
        Some(Self { name: text(name)?, subtype: subtype.or(inner).and_then(text) })
    }
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subtype {
            Some(subtype) => write!(f, "{}/{}", self.name, subtype),
            None => write!(f, "{}", self.name),
        }
    }
}

/// The JSON string `quoted`, which includes both quotes.
fn text(quoted: &[u8]) -> Option<Text<'_>> {
    let open = std::str::from_utf8(quoted).ok()?.strip_suffix('"')?;
    open.starts_with('"').then(|| Text::checked(open, open.contains('\\')))
}

/// The `type` and `subtype` of the object at the start of `bytes`, with their quotes.
fn find_in(bytes: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let mut name = None;
    let mut subtype = None;
    let mut start = 0;
    if let Some(end) = after_delta(bytes) {
        name = Some(&b"\"stream_event\""[..]);
        start = end;
    }
    for_each_field(bytes, start, |key, value| match key {
        b"type" => name = string(value),
        b"subtype" => subtype = string(value),
        _ => {}
    });
    Some((name?, subtype))
}

/// The kind of a JSON-RPC message, or of the one in a recording's object around it.
fn find_rpc(line: &[u8]) -> Option<Kind<'_>> {
    let message = RpcFields::of(line);
    if message.is_rpc {
        return message.kind();
    }
    let wrapped =
        RpcFields::of(message.wrapped.filter(|it| message.has_direction && it.starts_with(b"{"))?);
    (wrapped.is_rpc && !wrapped.has_type).then(|| wrapped.kind())?
}

/// What the kind of a JSON-RPC message depends on, with quotes.
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
#[derive(Default)]
struct RpcFields<'a> {
    is_rpc: bool,
    has_type: bool,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    has_result: bool,
    has_error: bool,
    has_direction: bool,
    wrapped: Option<&'a [u8]>,
}

impl<'a> RpcFields<'a> {
    fn of(object: &'a [u8]) -> Self {
        let mut this = Self::default();
        for_each_field(object, 0, |key, value| match key {
            b"jsonrpc" => this.is_rpc = string(value).is_some(),
            b"type" => this.has_type = string(value).is_some(),
            b"method" => this.method = string(value),
            b"params" => this.params = Some(value),
            b"result" => this.has_result = true,
            b"error" => this.has_error = !value.starts_with(b"null"),
            b"dir" => this.has_direction = string(value).is_some(),
            b"msg" => this.wrapped = Some(value),
            _ => {}
        });
        this
    }

    fn kind(&self) -> Option<Kind<'a>> {
        let (name, is_update) = match self.method {
            Some(method) => (text(method)?, method == b"\"session/update\""),
            None if self.has_error => (Text::word("\"error"), false),
            None if self.has_result => (Text::word("\"response"), false),
            None => return None,
        };
        let update = || field(field(self.params?, b"update")?, b"sessionUpdate");
        let subtype = if is_update { update().and_then(string).and_then(text) } else { None };
        Some(Kind { name, subtype })
    }
}

/// The last value with a key.
fn field<'a>(object: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    for_each_field(object, 0, |name, value| {
        if name == key {
            found = Some(value);
        }
    });
    found
}

/// The offset after the known first fields of a delta; `None` for other lines.
#[inline]
fn after_delta(line: &[u8]) -> Option<usize> {
    let head = delta_head(line)?;
    let mut at = string_end_loosely(line, head.text_start);
    let eat = |at: usize, word: &[u8]| line[at..].starts_with(word).then_some(at + word.len());
    at = eat(at, delta_head::TAIL)?;
    if let Some(id) = eat(at, delta_head::SESSION_ID) {
        at = string_end_loosely(line, id);
    }
    at = eat(at, delta_head::NO_PARENT).unwrap_or(at);
    if let Some(id) = eat(at, delta_head::UUID) {
        at = string_end_loosely(line, id);
    }
    Some(at)
}

fn string(value: &[u8]) -> Option<&[u8]> {
    value.starts_with(b"\"").then_some(value)
}

fn envelope_subtype<'a>(line: &'a [u8], envelope: &[u8]) -> Option<&'a [u8]> {
    field(field(line, envelope)?, b"subtype").and_then(string)
}

/// Visits the keys and unparsed values of an object. `start` is before its opening brace or after
/// one of its values.
#[inline]
fn for_each_field<'a>(bytes: &'a [u8], start: usize, mut visit: impl FnMut(&[u8], &'a [u8])) {
    let mut at = start;
    loop {
        at = skip_to(bytes, at, b'"');
        if at >= bytes.len() {
            return;
        }
        let at_key = at;
        let key_end = string_end_loosely(bytes, at_key + 1);
        let key = bytes.get(at_key + 1..key_end - 1).unwrap_or_default();
        at = skip_to(bytes, key_end, b':') + 1;
        while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r')) {
            at += 1;
        }
        let end = skip_loosely(bytes, at);
        let value = bytes.get(at..end).unwrap_or_default();
        if memchr::memchr(b'\\', key).is_none() {
            visit(key, value);
        } else if let Some(key) = bytes.get(at_key..key_end).and_then(text) {
            visit(key.decode().as_bytes(), value);
        }
        at = end;
        if matches!(bytes.get(at), Some(b'}') | None) {
            return;
        }
    }
}

/// The offset of the next `wanted` byte, or the end of `bytes` if a closing brace comes first.
#[inline]
fn skip_to(bytes: &[u8], mut at: usize, wanted: u8) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if byte == wanted {
            return at;
        }
        if byte == b'}' {
            break;
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[track_caller]
    fn check(line: &str, kind: Option<&str>) {
        assert_eq!(Kind::find(line.as_bytes()).map(|kind| kind.to_string()).as_deref(), kind);
    }

    #[test]
    fn the_type_is_found_at_any_position() {
        check(r#"{"type":"assistant","message":{"type":"message"}}"#, Some("assistant"));
        check(
            r#"{"a":{"type":"x"},"b":["type","{"],"type":"result","subtype":"success"}"#,
            Some("result/success"),
        );
        check(r#" { "type" : "user" , "n" : 1 } "#, Some("user"));
        check(r#"{"n":1,"type":"user"}"#, Some("user"));
        check(r#"{"type":"a","type":"b"}"#, Some("b"));
        check(r#"{"t\u0079pe":"b"}"#, Some("b"));
        check(
            r#"{"type":"control_request","request":{"subtype":"interrupt"}}"#,
            Some("control_request/interrupt"),
        );
        check(r#"{"text":"\"type\":\"no\"","type":"yes"}"#, Some("yes"));
    }

    #[test]
    fn a_line_without_a_type_has_no_kind() {
        check("", None);
        check("plain text", None);
        check("{}", None);
        check(r#"{"type":5}"#, None);
        check(r#"{"message":{"type":"message"}}"#, None);
        check(r#"{"type"#, None);
        check(r#"{"type":"#, None);
        check(r#"{"type":"x"#, None);
    }
}
