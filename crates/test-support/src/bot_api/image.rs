//! What kind of picture some bytes are, and how large, from their first bytes.

/// A picture's width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Size {
    /// Whether Telegram shows it as a photo: sides of 10,000 together, at most 20 to 1.
    pub(super) fn is_a_photos(self) -> bool {
        let (width, height) = (u64::from(self.width), u64::from(self.height));
        let (long, short) = (width.max(height), width.min(height));
        short > 0 && width + height <= 10_000 && long <= short * 20
    }
}

/// The size of a PNG, GIF, JPEG or WebP picture; none where it is something else.
pub(super) fn size(bytes: &[u8]) -> Option<Size> {
    png(bytes).or_else(|| gif(bytes)).or_else(|| webp(bytes)).or_else(|| jpeg(bytes))
}

fn png(bytes: &[u8]) -> Option<Size> {
    let rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let number = |at: usize| Some(u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    Some(Size { width: number(8)?, height: number(12)? })
}

fn gif(bytes: &[u8]) -> Option<Size> {
    let rest = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    Some(Size { width: little(rest, 0, 2)?, height: little(rest, 2, 2)? })
}

fn webp(bytes: &[u8]) -> Option<Size> {
    let rest = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    match rest.get(..4)? {
        b"VP8X" => Some(Size { width: little(rest, 12, 3)? + 1, height: little(rest, 15, 3)? + 1 }),
        b"VP8 " => {
            let part = |at| Some(little(rest, at, 2)? & 0x3fff);
            Some(Size { width: part(14)?, height: part(16)? })
        }
        b"VP8L" => {
            let bits = little(rest, 9, 4)?;
            Some(Size { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
        }
        _ => None,
    }
}

/// Walks the segments until the frame header says the size.
fn jpeg(bytes: &[u8]) -> Option<Size> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let marker = match rest {
            [0xff, marker, ..] => *marker,
            _ => return None,
        };
        let big = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return Some(Size { width: big(7)?.into(), height: big(5)?.into() });
        }
        rest = rest.get(2 + usize::from(big(2)?)..)?;
    }
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let part = bytes.get(at..at + length)?;
    Some(part.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::{Size, size};

    #[test]
    fn sizes_are_read_from_headers() {
        let cases: [(&[u8], (u32, u32)); 5] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\0\0\0\0\x80", (256, 128)),
            (b"GIF89a\x0a\x00\x14\x00", (10, 20)),
            (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x20\x00\x40", (64, 32)),
            (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x3f\0\0\x1f\0\0", (64, 32)),
            (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x3f\xc0\x07\0", (64, 32)),
        ];
        for (bytes, (width, height)) in cases {
            assert_eq!(size(bytes), Some(Size { width, height }), "{bytes:?}");
        }
        assert_eq!(size(b"%PDF-1.7"), None);
        assert_eq!(size(b"\xff\xd8\xff"), None);
    }

    #[test]
    fn photos_are_neither_huge_nor_ribbons() {
        let cases = [
            (100, 100, true),
            (5_000, 5_000, true),
            (5_001, 5_000, false),
            (2_000, 100, true),
            (2_001, 100, false),
            (0, 10, false),
        ];
        for (width, height, fits) in cases {
            assert_eq!(Size { width, height }.is_a_photos(), fits, "{width}×{height}");
        }
    }
}
