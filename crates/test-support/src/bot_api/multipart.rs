//! `multipart/form-data`, read from a body that is already here.

use bytes::Bytes;
use memchr::memmem;

/// One field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    /// Its file name, where it is a file.
    pub(super) file: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) bytes: Bytes,
}

/// The fields of a form; none where it is broken off or no form at all.
pub(super) fn parts(content_type: &str, body: &Bytes) -> Option<Vec<Part>> {
    let boundary = content_type.split(';').find_map(|it| it.trim().strip_prefix("boundary="))?;
    let delimiter = format!("\r\n--{}", boundary.trim_matches('"'));
    // The first delimiter needs no line break before it.
    let first = &delimiter.as_bytes()[2..];
    let mut at = memmem::find(body, first)? + first.len();
    let mut parts = Vec::new();
    while !body[at..].starts_with(b"--") {
        let head = at + memmem::find(&body[at..], b"\r\n\r\n")?;
        let begin = head + 4;
        let end = begin + memmem::find(&body[begin..], delimiter.as_bytes())?;
        parts.push(part(&body[at..head], body.slice(begin..end))?);
        at = end + delimiter.len();
    }
    Some(parts)
}

fn part(head: &[u8], bytes: Bytes) -> Option<Part> {
    let head = String::from_utf8_lossy(head);
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (it, value) = line.split_once(':')?;
            it.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let disposition = header("content-disposition")?;
    let name = parameter(&disposition, "name")?;
    let file = parameter(&disposition, "filename");
    Some(Part { name, file, mime: header("content-type"), bytes })
}

fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').find_map(|it| {
        let value = it.trim().strip_prefix(name)?.strip_prefix('=')?;
        Some(value.trim_matches('"').replace("%22", "\""))
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::parts;

    #[test]
    fn a_form_comes_apart_into_its_fields() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n7\r\n--x\r\n\
                    content-disposition: form-data; name=\"photo\"; filename=\"a b.png\"\r\n\
                    Content-Type: image/png\r\n\r\n\r\n--y\r\n\r\n--x--\r\n";
        let read = parts("multipart/form-data; boundary=x", &Bytes::from(body)).unwrap();
        let read: Vec<_> = read
            .iter()
            .map(|it| (it.name.as_str(), it.file.as_deref(), it.mime.as_deref(), &it.bytes[..]))
            .collect();
        let photo = ("photo", Some("a b.png"), Some("image/png"), &b"\r\n--y\r\n"[..]);
        assert_eq!(read, [("chat_id", None, None, &b"7"[..]), photo]);
    }

    #[test]
    fn a_form_that_is_broken_off_is_none() {
        let body = Bytes::from("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n7");
        assert_eq!(parts("multipart/form-data; boundary=x", &body), None);
    }
}
