//! QR codes as pictures, made here because a link with a secret is shown to no third party.

use std::fmt::Write as _;

use qrcode::{Color, EcLevel};

/// The light border that scanners need, in modules.
const BORDER: usize = 4;

/// A QR code.
pub(super) struct QrCode(qrcode::QrCode);

impl QrCode {
    /// None if the text is too long for one.
    pub(super) fn new(text: &str) -> Option<Self> {
        qrcode::QrCode::with_error_correction_level(text, EcLevel::L).ok().map(Self)
    }

    /// Black on white whatever the page looks like: not every scanner reads an inverted code.
    pub(super) fn to_svg(&self) -> String {
        let width = self.0.width();
        let size = width + 2 * BORDER;
        let mut path = String::new();
        for (row, colors) in self.0.to_colors().chunks(width).enumerate() {
            let mut column = 0;
            for run in colors.chunk_by(|a, b| a == b) {
                if run[0] == Color::Dark {
                    let (x, y, length) = (column + BORDER, row + BORDER, run.len());
                    // Writing to a string does not fail.
                    let _ = write!(path, "M{x} {y}h{length}v1h-{length}z");
                }
                column += run.len();
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{size}v{size}H0z\"/>\
             <path d=\"{path}\"/></svg>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::QrCode;

    #[test]
    fn a_link_becomes_a_small_picture_and_a_very_long_one_none() {
        let link = format!("https://box.example.com:4280/#token={}", "x".repeat(43));
        let svg = QrCode::new(&link).unwrap().to_svg();
        assert!(svg.starts_with("<svg") && svg.len() < 20_000, "{}", svg.len());
        assert!(!svg.contains("token"), "the link is not in the text");
        assert!(QrCode::new(&"x".repeat(5000)).is_none());
    }
}
