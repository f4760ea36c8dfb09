//! Tool calls on their way: looked at, decided, run, answered.

use serde_json::{Value, json};

use super::call::{Call, Stage};
use super::talk::Speaker;
use super::{Session, tools};
use crate::play::effect::{Effect, Work};
use crate::play::history::Entry;
use crate::play::input::{Finding, Outcome};
use crate::play::permission::Mode;

impl Session {
    /// The call of an id, wherever it belongs.
    pub(super) fn call(&mut self, id: &str) -> Option<&mut Call> {
        let helpers = self.helpers.values_mut().map(|helper| &mut helper.talk);
        let mut talks = std::iter::once(&mut self.talk).chain(helpers);
        talks.find_map(|talk| talk.calls.iter_mut().find(|call| call.id == id && !call.is_done()))
    }

    /// Starts every call of a talk whose time has come.
    pub(super) fn advance(&mut self, speaker: &Speaker) {
        loop {
            let Some(talk) = self.talk(speaker) else { return };
            let mut harmless = true;
            let ready = talk.calls.iter().filter(|call| !call.is_done()).find(|call| {
                let free = harmless && call.is_harmless();
                let first = std::mem::replace(&mut harmless, free);
                call.stage == Stage::Waiting && first && (free || is_first(&talk.calls, call))
            });
            let Some(id) = ready.map(|call| call.id.clone()) else { return };
            self.start(&id);
        }
    }

    fn start(&mut self, id: &str) {
        let tools = self.tools();
        let Some(call) = self.call(id) else { return };
        call.stage = Stage::Inspecting;
        let known = tools.contains(&call.tool);
        let wrong = if known {
            tools::misuse(&call.tool, &call.input)
        } else {
            Some(tools::unavailable(&call.tool))
        };
        if let Some(outcome) = wrong {
            self.complete(id, outcome);
            return;
        }
        let needs_look = matches!(
            call.tool.as_str(),
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "ExitPlanMode"
        );
        let asks_host = call.tool == "AskUserQuestion";
        // Without hooks, even what needs no look is decided a beat later.
        if needs_look || !(asks_host || self.has_hooks()) {
            let mut work = self.work(id);
            if work.tool == "ExitPlanMode" {
                work.input = json!({ "path": self.plan_path() });
            }
            self.effects.push(Effect::Inspect(work));
        } else {
            self.hook_call(id);
        }
    }

    /// A call as the workshop gets it.
    pub(super) fn work(&mut self, id: &str) -> Work {
        let session = self.id.clone();
        let call = self.call(id);
        let (tool, input) =
            call.map(|call| (call.tool.clone(), call.input.clone())).unwrap_or_default();
        Work { call: id.to_owned(), tool, input, session }
    }

    /// What a call would touch was looked at.
    pub(super) fn inspected(&mut self, id: &str, finding: Finding) {
        match finding {
            Finding::Fine => {}
            // Where nothing is asked, 2.1.325 overwrites files that the model never saw.
            Finding::Wrong(text)
                if self.mode == Mode::Bypass
                    && text.starts_with("File has not been read yet")
                    && self.call(id).is_some_and(|call| call.tool == "Write") => {}
            Finding::Wrong(text) => {
                self.complete(id, Outcome::misuse(&text));
                return;
            }
            Finding::Plan { text, path } => {
                let Some(call) = self.call(id) else { return };
                call.input = match text {
                    Some(plan) => json!({ "plan": plan, "planFilePath": path }),
                    None => json!({}),
                };
            }
        }
        self.hook_call(id);
    }

    /// A tool is done.
    pub(super) fn done(&mut self, id: &str, outcome: Outcome) {
        let Some(call) = self.call(id) else { return };
        call.outcome = Some(outcome);
        if !self.hook_done(id) {
            self.conclude(id);
        }
    }

    /// Hooks have seen the outcome of a call.
    pub(super) fn conclude(&mut self, id: &str) {
        let outcome = self.call(id).and_then(|call| call.outcome.take());
        if let Some(outcome) = outcome {
            self.complete(id, outcome);
        }
    }

    /// A call has its result.
    pub(super) fn complete(&mut self, id: &str, outcome: Outcome) {
        let Some(call) = self.call(id) else { return };
        let block = call.block(&outcome);
        call.result = Some(block.clone());
        call.stage = Stage::Done;
        let speaker = call.speaker.clone();
        let meta = call.meta.clone();
        let remarks = std::mem::take(&mut call.remarks);
        let mut fields = json!({});
        if speaker == Speaker::Main {
            fields["tool_use_result"] = outcome.report;
        }
        if let Some(mut meta) = meta {
            meta["id"] = id.into();
            fields["tool_result_meta"] = json!([meta]);
        }
        self.user(&speaker, &json!([block]), fields);
        self.count_line(&speaker);
        for remark in remarks {
            self.system("informational", json!({ "content": remark, "level": "notice" }));
        }
        self.advance(&speaker);
        self.settle(&speaker);
    }

    /// Results go into the history together.
    pub(super) fn keep_results(&mut self, speaker: &Speaker, calls: &[Call]) {
        let results: Vec<Value> = calls.iter().filter_map(|call| call.result.clone()).collect();
        let uuid = self.ids.uuid();
        let content = Value::Array(results);
        self.keep_of(speaker, Entry { uuid, role: "user".to_owned(), content, prompt: false });
    }
}

fn is_first(calls: &[Call], call: &Call) -> bool {
    calls.iter().find(|other| !other.is_done()).is_some_and(|first| first.id == call.id)
}
