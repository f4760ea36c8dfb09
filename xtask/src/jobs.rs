//! Running several jobs at the same time, with output that stays readable.
//!
//! What a job prints goes to a file. When the job is over, the part of it is shown that a user should see.
//! Meanwhile, progress lines say what runs. A file, unlike a pipe, is complete when the job has exited, even
//! if a process that the job left behind still has it open.

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

/// How long a job may take. Tests take less than half of it, also on a busy machine; lints, which have a low
/// priority, may take until all tests are over.
const JOB_TIMEOUT: Duration = Duration::from_hours(1);

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
    pub(crate) failures: Vec<JobFailure>,
    /// Skipped tests with their reasons.
    pub(crate) skipped: Vec<(String, String)>,
    /// What is shown of the output; all of it if this is none.
    pub(crate) shown: Option<String>,
}

/// Something that failed in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobFailure {
    /// The name of the test; none if it is not a test of a test program.
    pub(crate) test: Option<String>,
    pub(crate) description: String,
}

impl JobFailure {
    /// The failure of something that is not a test.
    pub(crate) fn other(description: String) -> Self {
        Self { test: None, description }
    }
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
    /// The CPU time of the programs that it ran, where the system tells it.
    cpu_seconds: Option<f64>,
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
        Ok(Self { path, file, cpu_seconds: None })
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
                // It is known only as long as nothing has waited for the program.
                let cpu_seconds = exited_cpu_seconds(child.id());
                if let Some(status) = child.try_wait()? {
                    if let Some(seconds) = cpu_seconds {
                        *self.cpu_seconds.get_or_insert_default() += seconds;
                    }
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
    Ended { report: Result<JobReport, XtaskError>, name: String, text: String, took: String },
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
    let mut cpu_seconds = None;
    let report = JobLog::create(logs, &name).and_then(|mut log| {
        let result = work(&mut log);
        text = log.text();
        cpu_seconds = log.cpu_seconds;
        Ok(JobReport { name: name.clone(), step, result: result? })
    });
    let cpu = cpu_seconds.map(|seconds| format!(" ({seconds:.0} s of CPU time)"));
    let took = format!("{:.1} s{}", start.elapsed().as_secs_f64(), cpu.unwrap_or_default());
    JobEvent::Ended { report, name, text, took }
}

/// The CPU time that a program and its children took, if the program has just exited. Children that it
/// did not wait for are not in it.
fn exited_cpu_seconds(pid: u32) -> Option<f64> {
    /// The kernel reports times in hundredths of a second on every platform that has `/proc`.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    let times = fields.skip(10).take(4).map(|it| it.parse::<u32>().unwrap_or(0));
    is_zombie.then(|| times.map(f64::from).sum::<f64>() / TICKS_PER_SECOND)
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
            Ok(JobEvent::Ended { report, name, text, took }) => {
                running.retain(|it| *it != name);
                match report {
                    Ok(report) => {
                        print!("{}", report.result.shown.as_deref().unwrap_or(&text));
                        let failed = report.result.counts.failed > 0;
                        let ending = if failed { "FAILED after" } else { "done in" };
                        let counts = report.result.counts;
                        eprintln!("xtask: {name} {ending} {took}: {counts}");
                        reports.push(report);
                    }
                    Err(reason) => {
                        print!("{text}");
                        eprintln!("xtask: {name} could not run after {took}: {reason}");
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
    use super::{AT_ONCE, CheckJob, JobFailure, JobFindings, JobLog, run_jobs};
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
                    let failures = vec![JobFailure::other(log.text())];
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
            assert_eq!(report.result.failures, [JobFailure::other(text)], "{}", report.name);
        }
        std::fs::remove_dir_all(&logs).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_cpu_time_of_a_program_and_its_children_is_known() {
        let logs = std::env::temp_dir().join(format!("xtask-cpu-{}", std::process::id()));
        let mut log = JobLog::create(&logs, "busy").unwrap();
        let loops = "sh -c 'n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done'; true";
        assert!(log.run(Command::new("sh").args(["-c", loops])).unwrap().success());
        let seconds = log.cpu_seconds.unwrap();
        assert!((0.01..600.0).contains(&seconds), "{seconds}");
        std::fs::remove_dir_all(&logs).unwrap();
    }
}
