//! The one table a benchmark prints.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// What was measured, in the order it was.
#[derive(Default)]
pub(super) struct Table(Vec<Row>);

/// One line of the table.
pub(super) struct Row {
    job: &'static str,
    corpus: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Measured {
        baseline: String,
        ours: String,
        /// The number the target is about: how many times less than the baseline, or ours itself.
        score: Score,
        target: Option<Target>,
    },
    Skipped(String),
}

#[derive(Clone, Copy)]
enum Score {
    Times(f64),
    Ours(f64),
}

/// What a score should be.
#[derive(Clone, Copy)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met_by(self, score: f64) -> bool {
        match self {
            Self::AtLeast(least) => score >= least,
            Self::AtMost(most) => score <= most,
        }
    }
}

impl Row {
    /// A comparison of CPU times, scored by how many times ours goes into the baseline's.
    pub(super) fn speedup(
        job: &'static str,
        corpus: &'static str,
        (name, baseline): (&str, Duration),
        ours: Duration,
        target: Option<Target>,
    ) -> Self {
        let score = Score::Times(baseline.div_duration_f64(ours));
        let baseline = format!("{name} {}", rounded(baseline));
        let ours = rounded(ours);
        Self { job, corpus, outcome: Outcome::Measured { baseline, ours, score, target } }
    }

    /// A comparison of CPU times, scored by how many times the baseline's goes into ours.
    pub(super) fn slowdown(
        job: &'static str,
        baseline: (&str, Duration),
        ours: Duration,
        target: Target,
    ) -> Self {
        Self::slowdown_on(job, "", baseline, ours, target)
    }

    /// The same with a corpus.
    pub(super) fn slowdown_on(
        job: &'static str,
        corpus: &'static str,
        (name, baseline): (&str, Duration),
        ours: Duration,
        target: Target,
    ) -> Self {
        let score = Score::Times(ours.div_duration_f64(baseline));
        let baseline = format!("{name} {}", rounded(baseline));
        let (ours, target) = (rounded(ours), Some(target));
        Self { job, corpus, outcome: Outcome::Measured { baseline, ours, score, target } }
    }

    /// A comparison of amounts per second, scored by how many times the baseline's goes into ours.
    pub(super) fn rate(
        job: &'static str,
        (name, baseline): (&str, f64),
        ours: f64,
        target: Target,
    ) -> Self {
        let (score, target) = (Score::Times(ours / baseline), Some(target));
        let (baseline, ours) = (format!("{name} {baseline:.0}/s"), format!("{ours:.0}/s"));
        Self { job, corpus: "", outcome: Outcome::Measured { baseline, ours, score, target } }
    }

    /// An amount that is its own score.
    pub(super) fn amount(
        job: &'static str,
        corpus: &'static str,
        baseline: String,
        (amount, unit): (f64, &str),
        target: Option<Target>,
    ) -> Self {
        let (ours, score) = (format!("{amount:.1}{unit}"), Score::Ours(amount));
        Self { job, corpus, outcome: Outcome::Measured { baseline, ours, score, target } }
    }

    pub(super) fn skipped(job: &'static str, corpus: &'static str, reason: String) -> Self {
        Self { job, corpus, outcome: Outcome::Skipped(reason) }
    }

    fn cells(&self) -> [String; 7] {
        let names = [self.job.to_owned(), self.corpus.to_owned()];
        let rest = match &self.outcome {
            Outcome::Measured { baseline, ours, score, target } => {
                let (ratio, score) = match *score {
                    Score::Times(times) => (format!("{times:.1}×"), times),
                    Score::Ours(amount) => (String::new(), amount),
                };
                let (target, verdict) = match *target {
                    None => (String::new(), ""),
                    Some(target) => {
                        (target.to_string(), if target.is_met_by(score) { "met" } else { "MISSED" })
                    }
                };
                [baseline.clone(), ours.clone(), ratio, target, verdict.to_owned()]
            }
            Outcome::Skipped(reason) => {
                let [baseline, ours, ratio, target] = Default::default();
                [baseline, ours, ratio, target, format!("skipped: {reason}")]
            }
        };
        let [job, corpus] = names;
        let [baseline, ours, ratio, target, verdict] = rest;
        [job, corpus, baseline, ours, ratio, target, verdict]
    }
}

impl Extend<Row> for Table {
    fn extend<T: IntoIterator<Item = Row>>(&mut self, rows: T) {
        self.0.extend(rows);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["job", "corpus", "baseline", "ours", "ratio", "target", ""].map(str::to_owned);
        let lines: Vec<[String; 7]> =
            std::iter::once(head).chain(self.0.iter().map(Row::cells)).collect();
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

impl fmt::Display for Target {
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

    use super::{Row, Table, Target};

    #[test]
    fn a_table_shows_what_met_its_target_what_missed_it_and_what_was_skipped() {
        let ms = Duration::from_millis;
        let mut table = Table::default();
        table.extend([
            Row::speedup("kind", "A", ("Value", ms(600)), ms(100), None),
            Row::speedup("kind", "C", ("Value", ms(700)), ms(100), Some(Target::AtLeast(7.0))),
            Row::speedup("read", "C", ("Value", ms(390)), ms(100), Some(Target::AtLeast(4.0))),
            Row::slowdown("startup", ("true", ms(1)), ms(2), Target::AtMost(2.0)),
            Row::rate("stub", ("aimock", 3000.0), 36_000.4, Target::AtLeast(10.0)),
            Row::speedup("stub, CPU", "", ("aimock", ms(1) / 4), ms(1) / 80, None),
            Row::amount("memory", "C", String::new(), (12.34, " MB"), None),
            Row::skipped("inspect", "C", "`jq` is not installed".to_owned()),
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
