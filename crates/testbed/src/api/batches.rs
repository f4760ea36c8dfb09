//! Message batches: they are created, end when a client asks about them again, and can be cancelled
//! until then.
//!
//! The replies are taken from the script when the batch ends, in the order of its requests, so that a
//! batch that is cancelled uses none.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::http::Method;
use serde_json::{Value, json};

use super::event::ApiError;
use crate::timestamp::timestamp;

/// How long the API keeps working on a batch.
const EXPIRES_AFTER: Duration = Duration::from_hours(24);

/// The most batches on one page of the list.
const MAX_PAGE: usize = 1000;

/// What a method and a path below `/v1/messages/batches` request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiBatchRoute<'a> {
    /// `POST /v1/messages/batches`
    Create,
    /// `GET /v1/messages/batches`
    List,
    /// `GET /v1/messages/batches/{id}`
    Retrieve(&'a str),
    /// `DELETE /v1/messages/batches/{id}`
    Delete(&'a str),
    /// `POST /v1/messages/batches/{id}/cancel`
    Cancel(&'a str),
    /// `GET /v1/messages/batches/{id}/results`
    Results(&'a str),
}

impl<'a> ApiBatchRoute<'a> {
    /// The route, `Err` if the path is one of a batch with another method, or `None`.
    pub(super) fn find(method: &Method, path: &'a str) -> Option<Result<Self, ()>> {
        let rest = path.strip_prefix("/v1/messages/batches")?;
        if rest.is_empty() {
            return Some(match *method {
                Method::POST => Ok(Self::Create),
                Method::GET => Ok(Self::List),
                _ => Err(()),
            });
        }
        let mut parts = rest.strip_prefix('/')?.split('/');
        let id = parts.next().filter(|id| !id.is_empty())?;
        let action = parts.next();
        if parts.next().is_some() {
            return None;
        }
        match (action, method) {
            (None, &Method::GET) => Some(Ok(Self::Retrieve(id))),
            (None, &Method::DELETE) => Some(Ok(Self::Delete(id))),
            (Some("cancel"), &Method::POST) => Some(Ok(Self::Cancel(id))),
            (Some("results"), &Method::GET) => Some(Ok(Self::Results(id))),
            (None | Some("cancel" | "results"), _) => Some(Err(())),
            (Some(_), _) => None,
        }
    }
}

/// The batches of a server, oldest first.
#[derive(Debug, Default)]
pub(super) struct ApiBatches {
    batches: Mutex<Vec<ApiBatch>>,
}

#[derive(Clone, Debug)]
struct ApiBatch {
    id: String,
    created: SystemTime,
    canceled: Option<SystemTime>,
    ended: Option<SystemTime>,
    requests: Vec<ApiBatchRequest>,
    /// One for each request, once the batch has ended.
    results: Vec<Value>,
}

#[derive(Clone, Debug)]
struct ApiBatchRequest {
    custom_id: String,
    params: Value,
}

/// What a request about batches is answered with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ApiBatchResponse {
    Json(Value),
    /// One object per line.
    Lines(String),
}

/// What a request about batches depends on.
pub(super) struct ApiBatchCall<'a> {
    pub(super) route: ApiBatchRoute<'a>,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
    /// The base URL under which the client has reached the server.
    pub(super) base_url: &'a str,
    pub(super) new_id: &'a str,
}

impl ApiBatches {
    /// Answers a request. `reply` makes the `result` of one request of a batch.
    pub(super) fn respond(
        &self,
        call: &ApiBatchCall<'_>,
        mut reply: impl FnMut(&Value) -> Value,
    ) -> Result<ApiBatchResponse, ApiError> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        let find = |batches: &[ApiBatch], id: &str| {
            let position = batches.iter().position(|batch| batch.id == id);
            position.ok_or_else(|| not_found(id))
        };
        let json = |batch: &ApiBatch| ApiBatchResponse::Json(batch.json(call.base_url));
        match call.route {
            ApiBatchRoute::Create => {
                let batch = ApiBatch::new(call.new_id, call.body, now)?;
                batches.push(batch.clone());
                Ok(json(&batch))
            }
            ApiBatchRoute::List => {
                batches.iter_mut().for_each(|batch| batch.end(now, &mut reply));
                Ok(ApiBatchResponse::Json(page(&batches, call)?))
            }
            ApiBatchRoute::Retrieve(id) => {
                let position = find(&batches, id)?;
                batches[position].end(now, &mut reply);
                Ok(json(&batches[position]))
            }
            ApiBatchRoute::Cancel(id) => {
                let position = find(&batches, id)?;
                let batch = &mut batches[position];
                if batch.ended.is_some() {
                    return Err(ApiError::invalid_request(format!(
                        "Batch {id} cannot be canceled because it has already finished processing."
                    )));
                }
                batch.canceled.get_or_insert(now);
                Ok(json(batch))
            }
            ApiBatchRoute::Delete(id) => {
                let position = find(&batches, id)?;
                if batches[position].ended.is_none() {
                    return Err(ApiError::invalid_request(format!(
                        "Batch {id} cannot be deleted because it is still processing."
                    )));
                }
                batches.remove(position);
                Ok(ApiBatchResponse::Json(json!({ "id": id, "type": "message_batch_deleted" })))
            }
            ApiBatchRoute::Results(id) => {
                let batch = &batches[find(&batches, id)?];
                if batch.ended.is_none() {
                    return Err(ApiError::new(
                        404,
                        "not_found_error",
                        format!("Message batch {id} has no available results."),
                    ));
                }
                let lines = batch.results.iter().map(|result| format!("{result}\n"));
                Ok(ApiBatchResponse::Lines(lines.collect()))
            }
        }
    }
}

impl ApiBatch {
    /// Parses a request for a new batch.
    fn new(id: &str, body: &[u8], now: SystemTime) -> Result<Self, ApiError> {
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            ApiError::invalid_request(format!("The request body is not valid JSON: {error}"))
        })?;
        let Some(given) = body.get("requests") else {
            return Err(ApiError::invalid_request("requests: Field required"));
        };
        let given = given.as_array().map(Vec::as_slice).unwrap_or_default();
        if given.is_empty() {
            return Err(ApiError::invalid_request(
                "requests: List should have at least 1 item after validation, not 0",
            ));
        }
        let mut requests: Vec<ApiBatchRequest> = Vec::new();
        for (index, request) in given.iter().enumerate() {
            let missing = |field: &str| {
                ApiError::invalid_request(format!("requests.{index}.{field}: Field required"))
            };
            let custom_id = request["custom_id"].as_str().ok_or_else(|| missing("custom_id"))?;
            let params = request.get("params").ok_or_else(|| missing("params"))?.clone();
            if requests.iter().any(|it| it.custom_id == custom_id) {
                return Err(ApiError::invalid_request(format!(
                    "requests.{index}.custom_id: `{custom_id}` is not unique within the batch"
                )));
            }
            requests.push(ApiBatchRequest { custom_id: custom_id.to_owned(), params });
        }
        let (id, results) = (id.to_owned(), Vec::new());
        Ok(Self { id, created: now, canceled: None, ended: None, requests, results })
    }

    /// Ends the batch, unless it has ended. The requests of one that was cancelled are not made.
    fn end(&mut self, now: SystemTime, reply: &mut impl FnMut(&Value) -> Value) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(now);
        let is_canceled = self.canceled.is_some();
        let requests = self.requests.iter();
        let results = requests.map(|request| {
            let result =
                if is_canceled { json!({ "type": "canceled" }) } else { reply(&request.params) };
            json!({ "custom_id": request.custom_id, "result": result })
        });
        self.results = results.collect();
    }

    fn json(&self, base_url: &str) -> Value {
        let count = |kind: &str| {
            self.results.iter().filter(|result| result["result"]["type"] == kind).count()
        };
        let processing = self.requests.len() - self.results.len();
        let status = match (self.ended, self.canceled) {
            (Some(_), _) => "ended",
            (None, Some(_)) => "canceling",
            (None, None) => "in_progress",
        };
        let results = format!("{base_url}/v1/messages/batches/{}/results", self.id);
        json!({
            "id": self.id, "type": "message_batch", "processing_status": status,
            "request_counts": {
                "processing": processing, "succeeded": count("succeeded"),
                "errored": count("errored"), "canceled": count("canceled"), "expired": 0,
            },
            "ended_at": self.ended.map(timestamp),
            "created_at": timestamp(self.created),
            "expires_at": timestamp(self.created + EXPIRES_AFTER),
            "archived_at": null,
            "cancel_initiated_at": self.canceled.map(timestamp),
            "results_url": self.ended.map(|_| results),
        })
    }
}

/// One page of the list, the newest batch first.
fn page(batches: &[ApiBatch], call: &ApiBatchCall<'_>) -> Result<Value, ApiError> {
    let parameter = |name: &str| {
        let pairs = call.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let limit = match parameter("limit") {
        None => 20,
        Some(text) => {
            text.parse().ok().filter(|it| (1..=MAX_PAGE).contains(it)).ok_or_else(|| {
                ApiError::invalid_request("limit: Input should be between 1 and 1000")
            })?
        }
    };
    let newest: Vec<&ApiBatch> = batches.iter().rev().collect();
    let position =
        |id: &str| newest.iter().position(|batch| batch.id == id).ok_or_else(|| not_found(id));
    let (shown, has_more) = match (parameter("after_id"), parameter("before_id")) {
        (Some(id), _) => {
            let rest = &newest[position(id)? + 1..];
            (&rest[..rest.len().min(limit)], rest.len() > limit)
        }
        (None, Some(id)) => {
            let rest = &newest[..position(id)?];
            (&rest[rest.len().saturating_sub(limit)..], rest.len() > limit)
        }
        (None, None) => (&newest[..newest.len().min(limit)], newest.len() > limit),
    };
    let data: Vec<Value> = shown.iter().map(|batch| batch.json(call.base_url)).collect();
    Ok(json!({
        "data": data, "has_more": has_more,
        "first_id": shown.first().map(|batch| &batch.id),
        "last_id": shown.last().map(|batch| &batch.id),
    }))
}

fn not_found(id: &str) -> ApiError {
    ApiError::new(404, "not_found_error", format!("Message batch {id} not found."))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use serde_json::{Value, json};

    use super::{ApiBatchCall, ApiBatchResponse, ApiBatchRoute, ApiBatches};

    fn ask(batches: &ApiBatches, route: ApiBatchRoute<'_>, query: &str, body: &Value) -> Value {
        let body = body.to_string();
        let new_id = format!("msgbatch_{}", batches.batches.lock().unwrap().len());
        let call = ApiBatchCall {
            route,
            query,
            body: body.as_bytes(),
            base_url: "http://stub",
            new_id: &new_id,
        };
        let reply = |params: &Value| json!({ "type": "succeeded", "message": params["prompt"] });
        match batches.respond(&call, reply) {
            Ok(ApiBatchResponse::Json(value)) => value,
            Ok(ApiBatchResponse::Lines(lines)) => lines.into(),
            Err(error) => json!({ "error": error.message, "status": error.status }),
        }
    }

    fn create(batches: &ApiBatches, prompts: &[&str]) -> String {
        let request = |it: &&str| json!({ "custom_id": it, "params": { "prompt": it } });
        let requests: Vec<Value> = prompts.iter().map(request).collect();
        let body = json!({ "requests": requests });
        let batch = ask(batches, ApiBatchRoute::Create, "", &body);
        assert_eq!(batch["processing_status"], "in_progress", "{batch}");
        assert_eq!(batch["request_counts"]["processing"], prompts.len());
        batch["id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_batch_ends_when_it_is_asked_for_and_then_has_results() {
        let batches = ApiBatches::default();
        let id = create(&batches, &["a", "b"]);
        let early = ask(&batches, ApiBatchRoute::Results(&id), "", &json!({}));
        assert_eq!(early["status"], 404);
        let batch = ask(&batches, ApiBatchRoute::Retrieve(&id), "", &json!({}));
        assert_eq!(batch["processing_status"], "ended");
        assert_eq!(batch["request_counts"]["succeeded"], 2);
        assert_eq!(batch["results_url"], format!("http://stub/v1/messages/batches/{id}/results"));
        let results = ask(&batches, ApiBatchRoute::Results(&id), "", &json!({}));
        assert_eq!(
            results,
            "{\"custom_id\":\"a\",\"result\":{\"type\":\"succeeded\",\"message\":\"a\"}}\n\
             {\"custom_id\":\"b\",\"result\":{\"type\":\"succeeded\",\"message\":\"b\"}}\n"
        );
        assert_eq!(ask(&batches, ApiBatchRoute::Cancel(&id), "", &json!({}))["status"], 400);
        let deleted = ask(&batches, ApiBatchRoute::Delete(&id), "", &json!({}));
        assert_eq!(deleted["type"], "message_batch_deleted");
        assert_eq!(ask(&batches, ApiBatchRoute::Retrieve(&id), "", &json!({}))["status"], 404);
    }

    #[test]
    fn the_requests_of_a_cancelled_batch_are_not_made() {
        let batches = ApiBatches::default();
        let id = create(&batches, &["a"]);
        let batch = ask(&batches, ApiBatchRoute::Cancel(&id), "", &json!({}));
        assert_eq!(batch["processing_status"], "canceling");
        assert!(batch["cancel_initiated_at"].is_string());
        assert_eq!(ask(&batches, ApiBatchRoute::Delete(&id), "", &json!({}))["status"], 400);
        let batch = ask(&batches, ApiBatchRoute::Retrieve(&id), "", &json!({}));
        assert_eq!(batch["request_counts"]["canceled"], 1);
        let results = ask(&batches, ApiBatchRoute::Results(&id), "", &json!({}));
        assert_eq!(results, "{\"custom_id\":\"a\",\"result\":{\"type\":\"canceled\"}}\n");
    }

    #[test]
    fn the_list_has_pages_with_the_newest_first() {
        let batches = ApiBatches::default();
        let ids: Vec<String> = (0..3).map(|_| create(&batches, &["a"])).collect();
        let list = |query: &str| {
            let page = ask(&batches, ApiBatchRoute::List, query, &json!({}));
            let ids = page["data"].as_array().unwrap().iter();
            let ids: Vec<&str> = ids.map(|batch| batch["id"].as_str().unwrap()).collect();
            format!("{} {}", ids.join(" "), page["has_more"])
        };
        let [first, second, third] = [&ids[0], &ids[1], &ids[2]];
        assert_eq!(list(""), format!("{third} {second} {first} false"));
        assert_eq!(list("limit=2"), format!("{third} {second} true"));
        assert_eq!(list(&format!("limit=2&after_id={second}")), format!("{first} false"));
        assert_eq!(list(&format!("before_id={first}&limit=1")), format!("{second} true"));
        assert_eq!(ask(&batches, ApiBatchRoute::List, "limit=0", &json!({}))["status"], 400);
    }

    #[test]
    fn invalid_batches_are_refused() {
        let batches = ApiBatches::default();
        let request = json!({ "custom_id": "a", "params": {} });
        let table = [
            (json!({}), "requests: Field required"),
            (json!({ "requests": [] }), "requests: List should have at least 1 item"),
            (json!({ "requests": [{ "params": {} }] }), "requests.0.custom_id: Field required"),
            (json!({ "requests": [{ "custom_id": "a" }] }), "requests.0.params: Field required"),
            (json!({ "requests": [request, request] }), "requests.1.custom_id: `a` is not unique"),
        ];
        for (body, message) in table {
            let answer = ask(&batches, ApiBatchRoute::Create, "", &body);
            assert!(answer["error"].as_str().unwrap().starts_with(message), "{answer}");
        }
    }

    #[test]
    fn methods_and_paths_select_what_is_done_with_a_batch() {
        let find = |method: Method, path| ApiBatchRoute::find(&method, path);
        assert_eq!(find(Method::POST, "/v1/messages/batches"), Some(Ok(ApiBatchRoute::Create)));
        assert_eq!(find(Method::PUT, "/v1/messages/batches"), Some(Err(())));
        let one = "/v1/messages/batches/x";
        assert_eq!(find(Method::DELETE, one), Some(Ok(ApiBatchRoute::Delete("x"))));
        let cancel = "/v1/messages/batches/x/cancel";
        assert_eq!(find(Method::POST, cancel), Some(Ok(ApiBatchRoute::Cancel("x"))));
        assert_eq!(find(Method::GET, cancel), Some(Err(())));
        for path in ["/v1/messages/batches/", "/v1/messages/batches/x/y", "/v1/messages"] {
            assert_eq!(find(Method::GET, path), None, "{path}");
        }
    }
}
