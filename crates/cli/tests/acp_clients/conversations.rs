//! What an editor does with an agent, through the SDKs of the protocol.

use crate::fixture::Fixture;
use crate::{programs, real_cli};

const QUESTION: &str = r#"{"questions":[{"question":"Which database should I use?","header":"Database","multiSelect":false,"options":[{"label":"Postgres","description":"a server"},{"label":"SQLite","description":"a file"}]}]}"#;

/// What the model replies to the prompts of the scripts.
pub(crate) fn replies() -> String {
    let file =
        |name: &str| format!(r#"{{"command":"touch {name}.made","description":"make a file"}}"#);
    let output = r#"{"command":"yes 'a line of output' | head -c 1000000","description":"a lot"}"#;
    [
        "api for \"say hello\" always text \"Hello from the model\"".to_owned(),
        format!("api for \"make a file\" always tool Bash {}", file("a")),
        format!("api for \"make no file\" always tool Bash {}", file("no")),
        format!("api for \"make late file\" always tool Bash {}", file("late")),
        "api for \"count slowly\" always text \"one two three four five\" hold gate after 2"
            .to_owned(),
        "api for \"look at this\" always text \"A small picture\"".to_owned(),
        format!("api for \"which one\" always tool AskUserQuestion {QUESTION}"),
        r##"api for "plan it" always tool ExitPlanMode {"plan":"# Plan\n\n1. Write the queries"}"##
            .to_owned(),
        "api for \"long answer\" always repeat \"towpath \" 40000".to_owned(),
        format!("api for \"long output\" always tool Bash {output}"),
        "api for \"fail please\" always error 400 invalid_request_error \"No.\"".to_owned(),
        "api text \"Made it.\"".to_owned(),
    ]
    .join("\n")
}

const PYTHON_CASES: [&str; 17] = [
    "text",
    "allow",
    "deny",
    "options",
    "cancel",
    "cancel_request",
    "load",
    "sessions",
    "image",
    "resource",
    "question",
    "question_as_permission",
    "question_refused",
    "plan",
    "long_answer",
    "long_output",
    "failure",
];

async fn run_python(fixture: &Fixture, cases: &[&str]) {
    let Some(mut python) = programs::python("client.py") else { return };
    python.args(cases);
    println!("{}", fixture.run_client(python).await.succeeded());
    let requests = fixture.model_requests();
    if cases.contains(&"image") {
        assert!(requests.iter().any(|it| it.contains("\"image/png\"")), "no image was sent");
    }
    if cases.contains(&"resource") {
        assert!(requests.iter().any(|it| it.contains("remember the milk")), "no resource was sent");
    }
    if cases.contains(&"question") {
        let answers = requests.iter().filter(|it| it.contains("tool_result"));
        assert!(answers.filter(|it| it.contains("SQLite")).count() > 0, "no answer was sent");
    }
    println!("{} lines conform to the schema", fixture.records.check());
}

async fn run_typescript(fixture: &Fixture, script: &str, cases: &[&str]) {
    let Some(node) = programs::node() else { return };
    let mut client = node.script(script);
    client.args(cases);
    fixture.run_client(client).await.succeeded();
    println!("{} lines conform to the schema", fixture.records.check());
}

#[tokio::test]
async fn the_python_sdk_drives_sessions() {
    run_python(&Fixture::new(&replies()).await, &PYTHON_CASES).await;
}

#[tokio::test]
async fn the_typescript_sdk_drives_sessions() {
    let cases = ["text", "allow", "deny", "load", "queue"];
    run_typescript(&Fixture::new(&replies()).await, "sdk-v1.mjs", &cases).await;
}

#[tokio::test]
async fn the_typescript_sdk_drives_sessions_in_the_second_version_of_the_protocol() {
    let cases = ["text", "allow", "deny", "cancel", "resume", "failure"];
    run_typescript(&Fixture::new(&replies()).await, "sdk-v2.mjs", &cases).await;
}

#[tokio::test]
async fn the_sdks_drive_the_real_cli() {
    match real_cli::command().await {
        // What must be installed is installed while there is a network.
        Ok(_) if programs::node().is_some() && programs::python("client.py").is_some() => {
            real_cli::without_network("conversations::sdks_with_the_real_cli");
        }
        Ok(_) => {}
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test]
#[ignore = "the test above runs it without a network"]
async fn sdks_with_the_real_cli() {
    let command = real_cli::command().await.expect("it was there just now");
    let fixture = Fixture::new(&replies()).await;
    fixture.set_real_cli(&command);
    let cases = ["text", "allow", "deny", "cancel", "cancel_request", "load", "image", "question"];
    run_python(&fixture, &cases).await;
    run_typescript(&fixture, "sdk-v2.mjs", &["text", "allow", "cancel", "resume"]).await;
}
