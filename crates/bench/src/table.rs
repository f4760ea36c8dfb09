//! The table that the benchmarks print.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// Rows in the order in which they were measured.
#[derive(Default)]
pub(crate) struct BenchTable(Vec<BenchRow>);

/// One row of the table.
pub(crate) struct BenchRow {
    job: &'static str,
    corpus: &'static str,
    outcome: RowOutcome,
}

enum RowOutcome {
    Measured {
        baseline: String,
        ours: String,
        /// The number that the target is about.
        score: RowScore,
        target: Option<BenchTarget>,
    },
    Skipped(String),
}

#[derive(Clone, Copy)]
enum RowScore {
    /// The ratio of the baseline and our figure.
    Times(f64),
    /// Our figure itself.
    Ours(f64),
}

/// What a score must reach.
#[derive(Clone, Copy)]
pub(crate) enum BenchTarget {
    AtLeast(f64),
    AtMost(f64),
}

impl BenchTarget {
    fn is_met_by(self, score: f64) -> bool {
        match self {
            Self::AtLeast(least) => score >= least,
            Self::AtMost(most) => score <= most,
        }
    }
}

impl BenchRow {
    /// Compares CPU times; the score is the baseline divided by ours.
    pub(crate) fn speedup(
        job: &'static str,
        corpus: &'static str,
        (name, baseline): (&str, Duration),
        ours: Duration,
        target: Option<BenchTarget>,
    ) -> Self {
        let score = RowScore::Times(baseline.div_duration_f64(ours));
        let baseline = format!("{name} {}", rounded(baseline));
        let ours = rounded(ours);
        Self { job, corpus, outcome: RowOutcome::Measured { baseline, ours, score, target } }
    }

    /// Compares CPU times; the score is ours divided by the baseline.
    pub(crate) fn slowdown(
        job: &'static str,
        baseline: (&str, Duration),
        ours: Duration,
        target: BenchTarget,
    ) -> Self {
        Self::slowdown_on(job, "", baseline, ours, target)
    }

    /// Like `slowdown`, with the name of a corpus.
    pub(crate) fn slowdown_on(
        job: &'static str,
        corpus: &'static str,
        (name, baseline): (&str, Duration),
        ours: Duration,
        target: impl Into<Option<BenchTarget>>,
    ) -> Self {
        let score = RowScore::Times(ours.div_duration_f64(baseline));
        let baseline = format!("{name} {}", rounded(baseline));
        let (ours, target) = (rounded(ours), target.into());
        Self { job, corpus, outcome: RowOutcome::Measured { baseline, ours, score, target } }
    }

    /// Compares amounts per second; the score is ours divided by the baseline.
    pub(crate) fn rate(
        job: &'static str,
        (name, baseline): (&str, f64),
        ours: f64,
        target: BenchTarget,
    ) -> Self {
        let (score, target) = (RowScore::Times(ours / baseline), Some(target));
        let (baseline, ours) = (format!("{name} {baseline:.0}/s"), format!("{ours:.0}/s"));
        Self { job, corpus: "", outcome: RowOutcome::Measured { baseline, ours, score, target } }
    }

    /// An amount without a comparison; the score is the amount.
    pub(crate) fn amount(
        job: &'static str,
        corpus: &'static str,
        baseline: String,
        (amount, unit): (f64, &str),
        target: Option<BenchTarget>,
    ) -> Self {
        let (ours, score) = (format!("{amount:.1}{unit}"), RowScore::Ours(amount));
        Self { job, corpus, outcome: RowOutcome::Measured { baseline, ours, score, target } }
    }

    pub(crate) fn skipped(job: &'static str, corpus: &'static str, reason: String) -> Self {
        Self { job, corpus, outcome: RowOutcome::Skipped(reason) }
    }

    fn cells(&self) -> [String; 7] {
        let names = [self.job.to_owned(), self.corpus.to_owned()];
        let rest = match &self.outcome {
            RowOutcome::Measured { baseline, ours, score, target } => {
                let (ratio, score) = match *score {
                    RowScore::Times(times) => (format!("{times:.1}×"), times),
                    RowScore::Ours(amount) => (String::new(), amount),
                };
                let (target, result) = match *target {
                    None => (String::new(), ""),
                    Some(target) => {
                        (target.to_string(), if target.is_met_by(score) { "met" } else { "MISSED" })
                    }
                };
                [baseline.clone(), ours.clone(), ratio, target, result.to_owned()]
            }
            RowOutcome::Skipped(reason) => {
                let [baseline, ours, ratio, target] = Default::default();
                [baseline, ours, ratio, target, format!("skipped: {reason}")]
            }
        };
        let [job, corpus] = names;
        let [baseline, ours, ratio, target, result] = rest;
        [job, corpus, baseline, ours, ratio, target, result]
    }
}

impl Extend<BenchRow> for BenchTable {
    fn extend<T: IntoIterator<Item = BenchRow>>(&mut self, rows: T) {
        self.0.extend(rows);
    }
}

impl fmt::Display for BenchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["job", "corpus", "baseline", "ours", "ratio", "target", ""].map(str::to_owned);
        let lines: Vec<[String; 7]> =
            std::iter::once(head).chain(self.0.iter().map(BenchRow::cells)).collect();
        for line in &lines {
            let mut out = String::new();
            for (n, cell) in line.iter().enumerate() {
                let width = lines.iter().map(|line| line[n].chars().count()).max().unwrap_or(0);
                write!(out, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", out.trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Display for BenchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

fn rounded(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 0.5 {
        format!("{:.1} µs", milliseconds * 1000.0)
    } else if milliseconds < 10.0 {
        format!("{milliseconds:.2} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BenchRow, BenchTable, BenchTarget};

    #[test]
    fn a_table_shows_met_and_missed_targets_and_skipped_rows() {
        let ms = Duration::from_millis;
        let mut table = BenchTable::default();
        table.extend([
            BenchRow::speedup("kind", "A", ("Value", ms(600)), ms(100), None),
            BenchRow::speedup(
                "kind",
                "C",
                ("Value", ms(700)),
                ms(100),
                Some(BenchTarget::AtLeast(7.0)),
            ),
            BenchRow::speedup(
                "read",
                "C",
                ("Value", ms(390)),
                ms(100),
                Some(BenchTarget::AtLeast(4.0)),
            ),
            BenchRow::slowdown("startup", ("true", ms(1)), ms(2), BenchTarget::AtMost(2.0)),
            BenchRow::rate("stub", ("aimock", 3000.0), 36_000.4, BenchTarget::AtLeast(10.0)),
            BenchRow::speedup("stub, CPU", "", ("aimock", ms(1) / 4), ms(1) / 80, None),
            BenchRow::amount("memory", "C", String::new(), (12.34, " MB"), None),
            BenchRow::skipped("inspect", "C", "`jq` is not installed".to_owned()),
        ]);
        assert_eq!(
            table.to_string(),
            "\
job        corpus  baseline         ours     ratio  target
kind       A       Value 600 ms     100 ms   6.0×
kind       C       Value 700 ms     100 ms   7.0×   ≥ 7     met
read       C       Value 390 ms     100 ms   3.9×   ≥ 4     MISSED
startup            true 1.00 ms     2.00 ms  2.0×   ≤ 2     met
stub               aimock 3000/s    36000/s  12.0×  ≥ 10    met
stub, CPU          aimock 250.0 µs  12.5 µs  20.0×
memory     C                        12.3 MB
inspect    C                                                skipped: `jq` is not installed
"
        );
    }
}
