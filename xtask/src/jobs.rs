//! Running several jobs at the same time, with output that stays readable.
//!
//! What a job prints goes to a file. When the job is over, the part of it is shown that a user should see.
//! Meanwhile, progress lines say what runs. A file, unlike a pipe, is complete when the job has exited, even if a process that the
//! job left behind still has it open.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::counts::TestCounts;
use crate::error::XtaskError;

/// How many jobs run at the same time. Each of them runs as many tests at once as there are cores, and
/// tests mostly wait for processes and for time to pass: one job leaves 40 % of two cores idle. With three
/// of them the load is so high that the real CLI needs minutes for what takes seconds.
const AT_ONCE: usize = 2;

/// How long a job may take. The longest takes less than half of it, also on a busy machine.
const JOB_TIMEOUT: Duration = Duration::from_mins(25);

/// How often it is looked whether a job is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How often it is said what runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Something to run beside others.
pub(crate) struct CheckJob {
    pub(crate) name: String,
    /// The step of the check that it belongs to.
    pub(crate) step: &'static str,
    pub(crate) work: JobWork,
}

type JobWork = Box<dyn FnOnce(&mut JobLog) -> Result<JobFindings, XtaskError> + Send>;

/// What a job found.
#[derive(Debug, Default)]
pub(crate) struct JobFindings {
    pub(crate) counts: TestCounts,
    /// Tests that failed.
    pub(crate) failures: Vec<String>,
    /// Skipped tests with their reasons.
    pub(crate) skipped: Vec<(String, String)>,
    /// What is shown of the output; all of it if this is none.
    pub(crate) shown: Option<String>,
}

/// A job that is over.
#[derive(Debug)]
pub(crate) struct JobReport {
    pub(crate) name: String,
    pub(crate) step: &'static str,
    pub(crate) result: JobFindings,
}

/// The file with the output of a job.
#[derive(Debug)]
pub(crate) struct JobLog {
    path: PathBuf,
    file: File,
}

impl JobLog {
    /// Where the output of a job is.
    pub(crate) fn path(directory: &Path, job: &str) -> PathBuf {
        directory.join(format!("{}.log", job.replace(' ', "-")))
    }

    fn create(directory: &Path, job: &str) -> Result<Self, XtaskError> {
        let failed = |error: io::Error| XtaskError::new("create the log of a job", &error);
        fs::create_dir_all(directory).map_err(failed)?;
        let path = Self::path(directory, job);
        let _ = fs::remove_file(&path);
        // Everything is appended, because several processes write.
        let file = File::options().append(true).create_new(true).open(&path).map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Appends a line.
    pub(crate) fn write(&mut self, line: &str) {
        // The result of the job matters more than its log.
        let _ = writeln!(self.file, "{line}");
    }

    /// Runs a program with its output in the log, and returns its exit status. One that does not end is
    /// killed: CI would end the whole check at some time, without a word about what hung.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<ExitStatus, XtaskError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut run = || -> io::Result<_> {
            let (stdout, stderr) = (self.file.try_clone()?, self.file.try_clone()?);
            let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn()?;
            let start = Instant::now();
            loop {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
                if start.elapsed() > JOB_TIMEOUT {
                    let minutes = JOB_TIMEOUT.as_secs() / 60;
                    self.write(&format!(
                        "xtask: killed, because it took more than {minutes} minutes"
                    ));
                    child.kill()?;
                    return child.wait();
                }
                thread::sleep(POLL_INTERVAL);
            }
        };
        run().map_err(|error| XtaskError::new(&format!("start `{name}`"), &error))
    }

    /// Everything that was printed so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).into_owned()
    }
}

/// What happens to jobs.
enum JobEvent {
    Started(String),
    Ended { report: Result<JobReport, XtaskError>, name: String, text: String, seconds: f64 },
}

/// Runs the jobs in their order, some at the same time, and beside them those of `background` one after
/// the other. Returns when all are over.
pub(crate) fn run_jobs(
    logs: &Path,
    jobs: Vec<CheckJob>,
    background: Vec<CheckJob>,
) -> Result<Vec<JobReport>, XtaskError> {
    let total = jobs.len() + background.len();
    let (sender, events) = mpsc::channel();
    let jobs = Mutex::new(VecDeque::from(jobs));
    let background = Mutex::new(VecDeque::from(background));
    thread::scope(|scope| {
        for queue in std::iter::repeat_n(&jobs, AT_ONCE).chain([&background]) {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(job) = take(queue) {
                    let _ = sender.send(JobEvent::Started(job.name.clone()));
                    let _ = sender.send(run_job(logs, job));
                }
            });
        }
        drop(sender);
        show_events(&events, total)
    })
}

fn take(queue: &Mutex<VecDeque<CheckJob>>) -> Option<CheckJob> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn run_job(logs: &Path, job: CheckJob) -> JobEvent {
    let start = Instant::now();
    let CheckJob { name, step, work } = job;
    let mut text = String::new();
    let report = JobLog::create(logs, &name).and_then(|mut log| {
        let result = work(&mut log);
        text = log.text();
        Ok(JobReport { name: name.clone(), step, result: result? })
    });
    JobEvent::Ended { report, name, text, seconds: start.elapsed().as_secs_f64() }
}

/// Shows what the jobs do until all are over.
fn show_events(events: &Receiver<JobEvent>, total: usize) -> Result<Vec<JobReport>, XtaskError> {
    let start = Instant::now();
    let mut running: Vec<String> = Vec::new();
    let mut reports = Vec::new();
    let mut error = None;
    loop {
        match events.recv_timeout(PROGRESS_INTERVAL) {
            Ok(JobEvent::Started(name)) => running.push(name),
            Ok(JobEvent::Ended { report, name, text, seconds }) => {
                running.retain(|it| *it != name);
                match report {
                    Ok(report) => {
                        print!("{}", report.result.shown.as_deref().unwrap_or(&text));
                        let failed = report.result.counts.failed > 0;
                        let ending = if failed { "FAILED after" } else { "done in" };
                        let counts = report.result.counts;
                        eprintln!("xtask: {name} {ending} {seconds:.1} s: {counts}");
                        reports.push(report);
                    }
                    Err(reason) => {
                        print!("{text}");
                        eprintln!("xtask: {name} could not run after {seconds:.1} s: {reason}");
                        error = error.or(Some(reason));
                    }
                }
                // A reader of a file sees one job after the other.
                let _ = io::stdout().flush();
            }
            Err(RecvTimeoutError::Timeout) => {
                let (seconds, done) = (start.elapsed().as_secs(), reports.len());
                let names = running.join(", ");
                eprintln!("xtask: {seconds} s, {done} of {total} jobs done, running: {names}");
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    error.map_or(Ok(reports), Err)
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE, CheckJob, JobFindings, run_jobs};
    use crate::counts::TestCounts;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::Barrier;

    #[test]
    fn jobs_run_beside_each_other_and_each_has_its_whole_output() {
        let logs = std::env::temp_dir().join(format!("xtask-jobs-{}", std::process::id()));
        // It would wait forever if fewer jobs ran at the same time.
        let barrier = Arc::new(Barrier::new(AT_ONCE + 1));
        let job = |number: usize| {
            let barrier = Arc::clone(&barrier);
            CheckJob {
                name: format!("job {number}"),
                step: "test",
                work: Box::new(move |log| {
                    barrier.wait();
                    log.write("begin");
                    let text = format!("echo out {number}; echo error {number} >&2");
                    let status = log.run(Command::new("sh").args(["-c", &text]))?;
                    assert!(status.success());
                    let counts = TestCounts { passed: number, ..TestCounts::default() };
                    let failures = vec![log.text()];
                    Ok(JobFindings { counts, failures, ..JobFindings::default() })
                }),
            }
        };
        let jobs = (0..AT_ONCE).map(job).collect();
        let mut reports = run_jobs(&logs, jobs, vec![job(AT_ONCE)]).unwrap();
        reports.sort_by_key(|report| report.result.counts.passed);
        assert_eq!(reports.len(), AT_ONCE + 1);
        for (number, report) in reports.iter().enumerate() {
            let text = format!("begin\nout {number}\nerror {number}\n");
            assert_eq!(report.result.failures, [text], "{}", report.name);
        }
        std::fs::remove_dir_all(&logs).unwrap();
    }
}
