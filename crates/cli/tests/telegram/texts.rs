//! The wording of the bot that these tests rely on, so that a change of wording changes one file.
//!
//! Every constant is a part of the actual text.

// Buttons.
pub(crate) const ALLOW: &str = "Allow";
pub(crate) const DENY: &str = "Deny";
pub(crate) const DENY_WITH_REASON: &str = "Deny with reason";
pub(crate) const STOP: &str = "Stop";
pub(crate) const OTHER_ANSWER: &str = "Other";
pub(crate) const ACCEPT_EDITS: &str = "Accept edits";
pub(crate) const KEEP_PLANNING: &str = "Keep planning";
pub(crate) const SHOW_CHANGES: &str = "changes";

pub(crate) const CONFIRM_BYPASS: &str = "Yes, stop asking";
pub(crate) const REVOKE: &str = "✕ 1.";

// Notifications after a tap.
pub(crate) const ALLOWED: &str = "Allowed";
pub(crate) const STOPPING: &str = "Stopping";

// Messages.
pub(crate) const QUEUED: &str = "/queue";
pub(crate) const PROMPT_CHANGED: &str = "Updated the queued message";
pub(crate) const PROMPT_NOT_CHANGED: &str = "already has the original message";
pub(crate) const SESSION_ATTACHED: &str = "now shows";
pub(crate) const SESSION_DELETED: &str = "deleted";
pub(crate) const SESSION_DRIVEN_ELSEWHERE: &str = "Another Towpath";
pub(crate) const FILE_TOO_LARGE: &str = "20 MB";
pub(crate) const DIRECTORY_REJECTED: &str = "Cannot work in";
pub(crate) const NEEDS_ADMIN: &str = "only an admin";
pub(crate) const BYPASS_NOT_ALLOWED: &str = "--allow-bypass";
pub(crate) const SCHEDULE_REMOVED: &str = "will not be sent";
pub(crate) const NO_SESSION: &str = "no session here";

/// Commands in a chat with a session that is called "hello", and what the reply contains.
pub(crate) const COMMAND_REPLIES: [(&str, &str); 23] = [
    ("/help", "/new"),
    ("/status", "Directory"),
    ("/cost", "turn"),
    ("/model", "The model is"),
    ("/mode", "The mode is"),
    ("/queue", "No messages are queued"),
    ("/schedule", "Nothing is scheduled"),
    ("/schedule run it", "does not say when"),
    ("/set", "max_turns"),
    ("/set mode", "Permission mode"),
    ("/options", "max_turns"),
    ("/profile", "No profiles"),
    ("/commit", "not committed"),
    ("/rules", ".towpath/outbox"),
    ("/verbose", "How much"),
    ("/sessions", "hello"),
    ("/stop", "Nothing is running"),
    ("/diff", "No files were changed"),
    ("/resume zz", "No session"),
    ("/search", "What should I look for"),
    ("/search zzzz", "Nothing was found"),
    ("/new nowhere", DIRECTORY_REJECTED),
    ("/nonsense", "Unknown command"),
];

// Log and stderr.
pub(crate) const OTHER_POLLER: &str = "another program";
pub(crate) const UNKNOWN_TOKEN: &str = "does not accept this bot token";
pub(crate) const DATA_IN_USE: &str = "another towpath server is running";
