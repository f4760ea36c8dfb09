//! The export of a conversation, and its outline.

use towpath_view::html::{CspNonce, ExportOptions, HtmlExport};
use towpath_view::{Fold, ViewDocument};

fn session(turns: usize, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for n in 0..turns {
        let id = |kind: &str| format!("{kind}{n}");
        lines.push(
            serde_json::json!({"type": "user", "uuid": id("u"), "message": {"role": "user", "content": format!("prompt {n} {text}")}}).to_string(),
        );
        lines.push(
            serde_json::json!({"type": "assistant", "uuid": id("a"), "message": {"id": id("m"), "role": "assistant",
                "content": [{"type": "tool_use", "id": id("t"), "name": "Read", "input": {"file_path": "/p/notes.txt"}}]}}).to_string(),
        );
        lines.push(
            serde_json::json!({"type": "user", "uuid": id("r"), "message": {"role": "user",
                "content": [{"type": "tool_result", "tool_use_id": id("t"), "content": "what was in the file"}]}}).to_string(),
        );
        lines.push(
            serde_json::json!({"type": "assistant", "uuid": id("b"), "message": {"id": id("n"), "role": "assistant",
                "content": [{"type": "text", "text": format!("answer {n} {text}")}]}}).to_string(),
        );
    }
    lines
}

fn export(lines: &[String], options: ExportOptions) -> String {
    let mut document = ViewDocument::new(false);
    let mut page = HtmlExport::new(options, Vec::new());
    for line in lines {
        document.push_line(line.as_bytes(), None);
        page.update(&mut document).expect("memory");
    }
    page.finish(&mut document).expect("memory");
    let (top, turns, foot) = page.into_parts(&document, CspNonce(7));
    format!("{top}{}{foot}", String::from_utf8(turns).expect("text"))
}

#[test]
fn an_export_can_leave_out_what_tools_printed() {
    let lines = session(3, "<b>");
    let whole = export(&lines, ExportOptions::default());
    let without =
        export(&lines, ExportOptions { without_output: true, ..ExportOptions::default() });
    for page in [&whole, &without] {
        assert!(page.contains("answer 2 &lt;b&gt;") && page.contains("notes.txt"), "{page}");
    }
    assert!(whole.contains("what was in the file"));
    assert!(!without.contains("what was in the file"));
}

#[test]
fn the_outline_has_every_prompt_of_a_session_that_does_not_fit_into_memory() {
    let long = "and a long explanation of what is wanted ".repeat(100);
    let mut fold = Fold::with_budget(256 << 10);
    for (n, line) in session(400, &long).iter().enumerate() {
        fold.push_line(n as u64 + 1, line.as_bytes());
    }
    assert!(fold.conversation(usize::MAX).items.len() < 1200, "some were evicted");
    let check = |fold: &Fold| {
        let outline = fold.outline();
        assert_eq!(outline.len(), 400);
        for (n, prompt) in outline.iter().enumerate() {
            assert!(prompt.text.starts_with(&format!("prompt {n} and a long")), "{prompt:?}");
            assert!(prompt.text.chars().count() <= 160);
        }
    };
    check(&fold);
    check(&Fold::restore(&fold.save()).unwrap());
}
