//! The requests of an agent as a client is asked them, and what its answers mean. Pure.

use session::{GrantScope, RequestAnswer, RuleChoice};
use view::{Question, Request, ToolInput};
use wire::acp::{
    CallContent, ClientCapabilities, Elicitation, ElicitationField, PermissionAsk,
    PermissionChoice, PermissionChoiceKind, RpcError,
};
use wire::consent::{self, RuleId};
use wire::json::{Raw, Text};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

use crate::translate::{TranslatorSettings, call_id, permission_call};

const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// A question that a client has to answer.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) message: AskMessage,
    choices: Vec<(String, ChoiceMeaning)>,
    /// All questions of the request.
    questions: Vec<Question>,
    /// The answers to the first questions, if they are asked one by one.
    answers: Vec<(String, String)>,
}

/// How a client is asked.
#[derive(Clone, Debug)]
pub(crate) enum AskMessage {
    Permission(Box<PermissionAsk>),
    Form(Elicitation),
}

/// What a choice stands for.
#[derive(Clone, Debug)]
enum ChoiceMeaning {
    Answer(RequestAnswer),
    /// The answer to the question that was asked.
    Choose(String),
}

/// What follows from a client's answer.
#[derive(Debug)]
pub(crate) enum AskResult {
    Answer(RequestAnswer),
    /// There is another question.
    Next(Box<Ask>),
    /// The client cannot answer. The request stays open for others.
    Leave(String),
}

impl Ask {
    /// How a client is asked about a request.
    pub(crate) fn new(request: &Request, settings: &TranslatorSettings) -> Self {
        Self::with_answers(request, settings, Vec::new())
    }

    fn with_answers(
        request: &Request,
        settings: &TranslatorSettings,
        answers: Vec<(String, String)>,
    ) -> Self {
        let call = request.call();
        let questions = match call.tool_input() {
            ToolInput::Questions(questions) if request.kind == RequestKind::Question => questions,
            _ => Vec::new(),
        };
        let capabilities: ClientCapabilities = settings.capabilities;
        // After the first answer the rest is asked in the same way.
        if !questions.is_empty() && capabilities.forms && answers.is_empty() {
            let message = AskMessage::Form(form(request, &questions, settings));
            return Self { message, choices: Vec::new(), questions, answers };
        }
        let choices = match (request.kind, questions.get(answers.len())) {
            (RequestKind::Question, Some(question)) => question_choices(question),
            (RequestKind::Permission | RequestKind::Plan, _) if !request.choices.is_empty() => {
                own_choices(request)
            }
            (RequestKind::Plan, _) => plan_choices(),
            (RequestKind::Unknown, _) if !wire::is_answerable(&request.id) => {
                vec![rejection("Stop the turn: this request cannot be answered")]
            }
            (RequestKind::Unknown, _) => vec![rejection("Refuse: this version cannot show it")],
            _ => permission_choices(request),
        };
        let message = permission(request, questions.get(answers.len()), &choices, settings);
        let choices = choices.into_iter().map(|(choice, meaning)| (choice.id, meaning)).collect();
        Self { message: AskMessage::Permission(Box::new(message)), choices, questions, answers }
    }

    /// What the client's answer means.
    pub(crate) fn answered(
        self,
        result: Result<Raw<'_>, RpcError>,
        request: &Request,
        settings: &TranslatorSettings,
    ) -> AskResult {
        let result = match result {
            Ok(result) => result,
            // The Python SDK knows forms only if its user enabled them, and else refuses them.
            Err(_) if matches!(self.message, AskMessage::Form(_)) => {
                let mut settings = settings.clone();
                settings.capabilities.forms = false;
                return AskResult::Next(Box::new(Self::new(request, &settings)));
            }
            Err(error) => return AskResult::Leave(error.message),
        };
        match self.message {
            AskMessage::Form(_) => form_answer(result, &self.questions),
            AskMessage::Permission(_) => self.choice(result, request, settings),
        }
    }

    fn choice(
        self,
        result: Raw<'_>,
        request: &Request,
        settings: &TranslatorSettings,
    ) -> AskResult {
        let outcome = result.get("outcome");
        let text = |key| outcome.and_then(|it| it.get(key)).and_then(Raw::text).map(Text::decode);
        match text("outcome").as_deref() {
            Some("selected") => {}
            // Some clients say that when a person presses Escape, and some instead of denying.
            Some("cancelled") => return AskResult::Answer(denial("")),
            _ => return AskResult::Leave(format!("unexpected outcome: {}", result.as_str())),
        }
        let chosen = text("optionId").unwrap_or_default();
        let meaning = self.choices.into_iter().find(|(id, _)| *id == chosen);
        match meaning {
            None => AskResult::Leave(format!("there is no option `{chosen}`")),
            Some((_, ChoiceMeaning::Answer(answer))) => AskResult::Answer(answer),
            Some((_, ChoiceMeaning::Choose(choice))) => {
                let mut answers = self.answers;
                if let Some(question) = self.questions.get(answers.len()) {
                    answers.push((question.text.clone(), choice));
                }
                if answers.len() < self.questions.len() {
                    return AskResult::Next(Box::new(Self::with_answers(
                        request, settings, answers,
                    )));
                }
                AskResult::Answer(RequestAnswer::Answers(answers))
            }
        }
    }
}

fn denial(reason: &str) -> RequestAnswer {
    RequestAnswer::Deny { message: consent::denial(reason).to_owned(), interrupt: false }
}

fn allow(remember: Option<RuleChoice>, mode: Option<PermissionMode>) -> ChoiceMeaning {
    ChoiceMeaning::Answer(RequestAnswer::Allow { input: None, remember, mode })
}

fn rejection(name: &str) -> (PermissionChoice, ChoiceMeaning) {
    let choice = PermissionChoice {
        id: REJECT.to_owned(),
        name: name.to_owned(),
        kind: PermissionChoiceKind::RejectOnce,
    };
    (choice, ChoiceMeaning::Answer(denial("")))
}

/// The choices of the agent itself, with its names and ids, so that the client can tell them apart.
fn own_choices(request: &Request) -> Vec<(PermissionChoice, ChoiceMeaning)> {
    let choice = |choice: &PermissionChoice| {
        let answer = RequestAnswer::Choose { choice: choice.id.clone() };
        (choice.clone(), ChoiceMeaning::Answer(answer))
    };
    request.choices.iter().map(choice).collect()
}

/// Once, what the offered rules would remember and where, and no.
fn permission_choices(request: &Request) -> Vec<(PermissionChoice, ChoiceMeaning)> {
    let choice = |id: String, name: String, kind| PermissionChoice { id, name, kind };
    let once = choice(ALLOW.to_owned(), "Allow once".to_owned(), PermissionChoiceKind::AllowOnce);
    let mut choices = vec![(once, allow(None, None))];
    for rule in &request.rules {
        for (scope, name, where_) in [
            (GrantScope::Session, "session", "in this session"),
            (GrantScope::Directory, "directory", "in every session of this directory"),
        ] {
            let id = format!("rule:{}:{name}", rule_name(rule.id));
            let name = format!("Always {where_}: {}", rule.label);
            let remember = RuleChoice { rule: rule.id, until: None, scope };
            let choice = choice(id, name, PermissionChoiceKind::AllowAlways);
            choices.push((choice, allow(Some(remember), None)));
        }
    }
    choices.push(rejection("Deny"));
    choices
}

fn rule_name(rule: RuleId) -> &'static str {
    match rule {
        RuleId::Exact => "exact",
        RuleId::Directory => "directory",
        RuleId::Host => "host",
        RuleId::Tool => "tool",
    }
}

fn plan_choices() -> Vec<(PermissionChoice, ChoiceMeaning)> {
    let modes = consent::PLAN_APPROVAL_MODES.into_iter().map(|mode| {
        let described = consent::describe_mode(mode);
        let kind = match mode {
            PermissionMode::Default => PermissionChoiceKind::AllowOnce,
            _ => PermissionChoiceKind::AllowAlways,
        };
        let choice = PermissionChoice {
            id: format!("mode:{}", mode.name()),
            name: format!("Approve the plan; mode: {}", described.label),
            kind,
        };
        (choice, allow(None, Some(mode)))
    });
    modes.chain([rejection("Keep planning")]).collect()
}

fn question_choices(question: &Question) -> Vec<(PermissionChoice, ChoiceMeaning)> {
    let options = question.options.iter().enumerate().map(|(number, option)| {
        let name = match option.description.as_str() {
            "" => option.label.clone(),
            description => format!("{}: {description}", option.label),
        };
        let id = format!("answer:{number}");
        let choice = PermissionChoice { id, name, kind: PermissionChoiceKind::AllowOnce };
        (choice, ChoiceMeaning::Choose(option.label.clone()))
    });
    options.chain([rejection("Do not answer")]).collect()
}

fn permission(
    request: &Request,
    question: Option<&Question>,
    choices: &[(PermissionChoice, ChoiceMeaning)],
    settings: &TranslatorSettings,
) -> PermissionAsk {
    let id = request.item.as_ref().map_or(request.id.as_str(), call_id);
    let mut call = permission_call(id, &request.call(), &settings.directory);
    let mut content = call.content.take().unwrap_or_default();
    match question {
        Some(question) => {
            call.title = Some(question.text.clone());
            content = vec![CallContent::Text(question.text.clone())];
        }
        // What a person must have seen stands there in full, whatever else the client shows.
        None if request.kind != RequestKind::Plan => {
            for disclosure in request.disclosures() {
                let text = format!("**{}**\n\n{}", disclosure.label, indented(&disclosure.text));
                content.push(CallContent::Text(text));
            }
        }
        None => {}
    }
    // What is said here replaces what was said of the call before. The CLI asks about a plan that is
    // in its file without an input.
    call.content = Some(content).filter(|it| !it.is_empty());
    call.raw_input = call.raw_input.filter(|it| it.as_str() != "{}");
    let title = call.title.clone().unwrap_or_else(|| request.tool.clone());
    PermissionAsk {
        session: settings.session.clone(),
        title,
        description: request.description.clone().or_else(|| request.reason.clone()),
        call,
        choices: choices.iter().map(|(choice, _)| choice.clone()).collect(),
    }
}

/// A text as a block of Markdown that shows every character as it is.
fn indented(text: &str) -> String {
    let lines = text.split('\n').map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn form(request: &Request, questions: &[Question], settings: &TranslatorSettings) -> Elicitation {
    let fields = questions.iter().enumerate().map(|(number, question)| {
        let option = |it: &view::QuestionOption| (it.label.clone(), it.description.clone());
        ElicitationField {
            key: field_key(number),
            title: question.header.clone(),
            question: question.text.clone(),
            options: question.options.iter().map(option).collect(),
            multiple: question.multiple,
            custom_key: custom_key(number),
        }
    });
    let message = match questions {
        [question] => question.text.clone(),
        questions => format!("The agent has {} questions", questions.len()),
    };
    let call = request.item.as_ref().map_or(request.id.as_str(), call_id).to_owned();
    Elicitation { session: settings.session.clone(), call, message, fields: fields.collect() }
}

fn field_key(number: usize) -> String {
    format!("question_{number}")
}

fn custom_key(number: usize) -> String {
    format!("question_{number}_custom")
}

fn form_answer(result: Raw<'_>, questions: &[Question]) -> AskResult {
    let action = result.get("action").and_then(Raw::text).map(|it| it.decode().into_owned());
    match action.as_deref() {
        Some("accept") => {}
        Some("decline" | "cancel") => {
            return AskResult::Answer(denial("The user did not want to answer the questions."));
        }
        _ => return AskResult::Leave(format!("unexpected answer: {}", result.as_str())),
    }
    let content = result.get("content");
    let field = |key: &str| content.and_then(|it| it.get(key));
    let answers = questions.iter().enumerate().filter_map(|(number, question)| {
        let chosen = field(&field_key(number));
        let mut parts: Vec<String> = match chosen {
            None => Vec::new(),
            Some(chosen) => match chosen.text() {
                Some(text) => vec![text.decode().into_owned()],
                None => chosen.items().map(|it| it.readable().into_owned()).collect(),
            },
        };
        let custom = field(&custom_key(number)).and_then(Raw::text);
        parts.extend(custom.map(|it| it.decode().into_owned()));
        parts.retain(|it| !it.trim().is_empty());
        (!parts.is_empty()).then(|| (question.text.clone(), parts.join(", ")))
    });
    AskResult::Answer(RequestAnswer::Answers(answers.collect()))
}

#[cfg(test)]
mod tests {
    use super::{Ask, AskMessage, AskResult};
    use crate::translate::TranslatorSettings;
    use session::{GrantScope, RequestAnswer};
    use view::{Request, ToolAction};
    use wire::acp::{ClientCapabilities, PermissionChoice, PermissionChoiceKind, RpcError};
    use wire::consent;
    use wire::json::Raw;
    use wire::note::RequestKind;
    use wire::outgoing::PermissionMode;

    fn request(tool: &str, kind: RequestKind, input: &str) -> Request {
        Request {
            id: "r".to_owned(),
            item: None,
            kind,
            tool: tool.to_owned(),
            action: ToolAction::of(tool),
            target: String::new(),
            input: input.to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: None,
            expires: None,
            choices: Vec::new(),
            rules: consent::rules(tool, input, "/p"),
        }
    }

    fn select(ask: Ask, request: &Request, option: &str) -> AskResult {
        let json = format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}"#);
        let settings = TranslatorSettings::default();
        ask.answered(Ok(Raw::parse(&json).unwrap()), request, &settings)
    }

    #[test]
    fn a_rule_is_named_with_its_scope_and_remembered_there() {
        let request = request("Bash", RequestKind::Permission, r#"{"command":"rm -rf build"}"#);
        let ask = Ask::new(&request, &TranslatorSettings::default());
        let AskMessage::Permission(permission) = &ask.message else { panic!() };
        let names: Vec<&str> = permission.choices.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "Allow once",
                "Always in this session: Run exactly this command",
                "Always in every session of this directory: Run exactly this command",
                "Deny"
            ]
        );
        assert_eq!(permission.choices[3].kind, PermissionChoiceKind::RejectOnce);
        assert!(format!("{:?}", permission.call.content).contains("    rm -rf build"));
        let answer = select(ask.clone(), &request, "rule:exact:directory");
        let AskResult::Answer(RequestAnswer::Allow { remember: Some(rule), .. }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(rule.scope, GrantScope::Directory);
        let answer = select(ask.clone(), &request, "reject");
        assert!(matches!(answer, AskResult::Answer(RequestAnswer::Deny { .. })));
        assert!(matches!(select(ask, &request, "nonsense"), AskResult::Leave(_)));
    }

    #[test]
    fn the_choices_of_the_agent_reach_the_client_as_they_are() {
        let mut request = request("Bash", RequestKind::Permission, r#"{"command":"make"}"#);
        let choice = |id: &str, name: &str, kind| PermissionChoice {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        request.choices = vec![
            choice(
                "approved-for-session",
                "Yes, for the session",
                PermissionChoiceKind::AllowAlways,
            ),
            choice("approved-execpolicy", "Yes, for `make`", PermissionChoiceKind::AllowAlways),
            choice("abort", "No, and say why", PermissionChoiceKind::RejectOnce),
        ];
        let ask = Ask::new(&request, &TranslatorSettings::default());
        let AskMessage::Permission(permission) = &ask.message else { panic!() };
        assert_eq!(permission.choices, request.choices);
        let answer = select(ask, &request, "approved-execpolicy");
        let AskResult::Answer(RequestAnswer::Choose { choice }) = answer else { panic!() };
        assert_eq!(choice, "approved-execpolicy");
    }

    #[test]
    fn a_plan_is_approved_with_a_mode() {
        let request = request("ExitPlanMode", RequestKind::Plan, r##"{"plan":"# Plan"}"##);
        let ask = Ask::new(&request, &TranslatorSettings::default());
        let AskMessage::Permission(permission) = &ask.message else { panic!() };
        assert!(format!("{:?}", permission.call.content).contains("# Plan"));
        let answer = select(ask, &request, "mode:acceptEdits");
        let AskResult::Answer(RequestAnswer::Allow { mode, .. }) = answer else { panic!() };
        assert_eq!(mode, Some(PermissionMode::AcceptEdits));
    }

    #[test]
    fn a_request_without_an_input_does_not_remove_the_plan_that_the_client_has() {
        let request = request("ExitPlanMode", RequestKind::Plan, "{}");
        let ask = Ask::new(&request, &TranslatorSettings::default());
        let AskMessage::Permission(permission) = &ask.message else { panic!() };
        assert!(permission.call.content.is_none() && permission.call.raw_input.is_none());
    }

    #[test]
    fn a_client_that_refuses_a_form_is_asked_one_by_one() {
        let request = request("AskUserQuestion", RequestKind::Question, QUESTIONS);
        let capabilities = ClientCapabilities { forms: true, ..Default::default() };
        let settings = TranslatorSettings { capabilities, ..Default::default() };
        let refused = Err(RpcError::internal("there are no forms"));
        let next = Ask::new(&request, &settings).answered(refused, &request, &settings);
        let AskResult::Next(next) = next else { panic!("{next:?}") };
        let json = r#"{"outcome":{"outcome":"selected","optionId":"answer:0"}}"#;
        let next = next.answered(Ok(Raw::parse(json).unwrap()), &request, &settings);
        let AskResult::Next(next) = next else { panic!("{next:?}") };
        assert!(matches!(&next.message, AskMessage::Permission(it) if it.title == "Where?"));
        let refused = Err(RpcError::internal("nor permissions"));
        assert!(matches!(next.answered(refused, &request, &settings), AskResult::Leave(_)));
    }

    const QUESTIONS: &str = r#"{"questions":[
        {"question":"Which?","header":"Colour","options":[{"label":"red"},{"label":"blue"}]},
        {"question":"Where?","header":"Place","multiSelect":true,
         "options":[{"label":"here"},{"label":"there"}]}]}"#;

    #[test]
    fn questions_are_asked_one_by_one_where_there_are_no_forms() {
        let request = request("AskUserQuestion", RequestKind::Question, QUESTIONS);
        let ask = Ask::new(&request, &TranslatorSettings::default());
        let AskResult::Next(next) = select(ask, &request, "answer:1") else { panic!() };
        let AskMessage::Permission(permission) = &next.message else { panic!() };
        assert_eq!(permission.title, "Where?");
        let answer = select(*next, &request, "answer:0");
        let AskResult::Answer(RequestAnswer::Answers(answers)) = answer else { panic!() };
        let answers: Vec<(&str, &str)> =
            answers.iter().map(|(question, answer)| (question.as_str(), answer.as_str())).collect();
        assert_eq!(answers, [("Which?", "blue"), ("Where?", "here")]);
    }

    #[test]
    fn questions_are_a_form_where_a_client_has_forms() {
        let request = request("AskUserQuestion", RequestKind::Question, QUESTIONS);
        let capabilities = ClientCapabilities { forms: true, ..Default::default() };
        let settings = TranslatorSettings { capabilities, ..Default::default() };
        let ask = Ask::new(&request, &settings);
        assert!(matches!(&ask.message, AskMessage::Form(form) if form.fields.len() == 2));
        let json = r#"{"action":"accept","content":{"question_0":"red","question_0_custom":"dark",
            "question_1":["here","there"],"question_1_custom":" "}}"#;
        let answer = ask.clone().answered(Ok(Raw::parse(json).unwrap()), &request, &settings);
        let AskResult::Answer(RequestAnswer::Answers(answers)) = answer else { panic!() };
        assert_eq!(answers[0].1, "red, dark");
        assert_eq!(answers[1].1, "here, there");
        let declined = Raw::parse(r#"{"action":"decline"}"#).unwrap();
        let answer = ask.answered(Ok(declined), &request, &settings);
        assert!(matches!(answer, AskResult::Answer(RequestAnswer::Deny { .. })));
    }
}
