//! A table in columns that fit.

use pulldown_cmark::Alignment;

use super::Line;
use super::wrap::wrapped;
use crate::ansi::Style;

const BORDER: Style = Style::PLAIN.dim();
const BETWEEN: &str = " │ ";

/// A table while its cells come.
pub(crate) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Line>>,
}

impl Table {
    pub(crate) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(crate) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(crate) fn add_cell(&mut self, cell: Line) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The lines of it, the first row as its head.
    pub(crate) fn lines(&self, width: usize) -> Vec<Line> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(Line::width)
                .max()
                .unwrap_or(0)
                .max(1)
        };
        let mut widths: Vec<usize> = (0..columns).map(natural).collect();
        let borders = columns.saturating_sub(1) * 3;
        // The widest gives way until all fit.
        while widths.iter().sum::<usize>() + borders > width {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > 3) else { break };
            *widest -= 1;
        }
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            self.row(row, &widths, &mut lines);
            if number == 0 {
                let dashes: Vec<_> = widths.iter().map(|&width| "─".repeat(width)).collect();
                lines.push(Line::of(BORDER, &dashes.join("─┼─")));
            }
        }
        lines
    }

    fn row(&self, row: &[Line], widths: &[usize], lines: &mut Vec<Line>) {
        let cells: Vec<_> = widths
            .iter()
            .enumerate()
            .map(|(column, &width)| {
                row.get(column).map(|cell| wrapped(cell, width)).unwrap_or_default()
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for level in 0..height {
            let mut line = Line::default();
            for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    line.push(BORDER, BETWEEN);
                }
                let empty = Line::default();
                let part = cell.get(level).unwrap_or(&empty);
                let room = width.saturating_sub(part.width());
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => room,
                    Some(Alignment::Center) => room / 2,
                    _ => 0,
                };
                line.push(Style::PLAIN, &" ".repeat(before));
                line.append(part);
                let last = column + 1 == widths.len();
                line.push(Style::PLAIN, &" ".repeat(if last { 0 } else { room - before }));
            }
            lines.push(line);
        }
    }
}
