//! Forms as questions, and answers as the content of forms.

use serde_json::{Value, json};
use wire::json::Raw;
use wire::outgoing::FormAnswer;

use super::state::{FieldKind, FormField};

/// The end of the key of a field for an answer in one's own words, beside one with options.
const CUSTOM: &str = "_custom";

/// A field with what is only shown of it.
pub(super) struct ShownField {
    pub(super) field: FormField,
    header: String,
    /// The descriptions of the options.
    descriptions: Vec<String>,
}

/// The fields of a form. What a field asks for is unique, because answers name it.
pub(super) fn fields(message: &str, schema: Raw<'_>) -> Vec<ShownField> {
    let properties: Vec<(String, Raw<'_>)> = schema
        .get("properties")
        .into_iter()
        .flat_map(Raw::fields)
        .map(|(key, property)| (key.decode().into_owned(), property))
        .collect();
    let is_custom = |key: &str| {
        key.strip_suffix(CUSTOM).is_some_and(|base| properties.iter().any(|(it, _)| it == base))
    };
    let own = properties.iter().filter(|(key, _)| !is_custom(key));
    let alone = own.clone().count() == 1;
    let mut fields: Vec<ShownField> = Vec::new();
    for (key, property) in own {
        let text = |name: &str| Some(property.get(name)?.text()?.decode().into_owned());
        let title = text("title");
        let question = if alone && !message.is_empty() { Some(message.to_owned()) } else { None };
        let question = question.or_else(|| title.clone()).or_else(|| text("description"));
        let question = question.unwrap_or_else(|| key.clone());
        let title = title.unwrap_or_else(|| key.clone());
        let taken = fields.iter().any(|it| it.field.question == question);
        let question = if taken { format!("{question} ({key})") } else { question };
        let kind = match text("type").as_deref() {
            Some("number") => FieldKind::Number,
            Some("integer") => FieldKind::Integer,
            Some("boolean") => FieldKind::Switch,
            Some("array") => FieldKind::Several,
            _ => FieldKind::Text,
        };
        let values =
            if kind == FieldKind::Several { property.get("items") } else { Some(*property) };
        let mut options = values.map(read_options).unwrap_or_default();
        if kind == FieldKind::Switch && options.is_empty() {
            let option = |label: &str, value: &str| ShownOption {
                label: label.to_owned(),
                value: value.to_owned(),
                description: String::new(),
            };
            options = vec![option("Yes", "true"), option("No", "false")];
        }
        let custom = format!("{key}{CUSTOM}");
        let custom = properties.iter().any(|(it, _)| *it == custom).then_some(custom);
        let descriptions = options.iter().map(|it| it.description.clone()).collect();
        let options = options.into_iter().map(|it| (it.label, it.value)).collect();
        let field = FormField { key: key.clone(), question, kind, options, custom };
        fields.push(ShownField { field, header: title, descriptions });
    }
    fields
}

/// The questions as the input of a request that asks some.
pub(super) fn questions(fields: &[ShownField]) -> String {
    let questions: Vec<Value> = fields
        .iter()
        .map(|ShownField { field, header, descriptions }| {
            let options = field.options.iter().zip(descriptions);
            let options = options.map(
                |((label, _), description)| json!({ "label": label, "description": description }),
            );
            json!({
                "question": field.question,
                "header": header,
                "options": options.collect::<Vec<_>>(),
                "multiSelect": field.kind == FieldKind::Several,
            })
        })
        .collect();
    json!({ "questions": questions }).to_string()
}

/// The content of a form with a person's answers.
pub(super) fn content(
    fields: &[FormField],
    answers: &[(String, String)],
) -> Vec<(String, FormAnswer)> {
    let mut content = Vec::new();
    for field in fields {
        let answer = answers.iter().find(|(question, _)| *question == field.question);
        let Some((_, answer)) = answer.filter(|(_, answer)| !answer.is_empty()) else { continue };
        let value = |label: &str| {
            let option = field.options.iter().find(|(it, value)| it == label || value == label);
            option.map(|(_, value)| value.clone())
        };
        if field.kind == FieldKind::Several {
            let words = || answer.split(", ").map(|it| value(it).unwrap_or_else(|| it.to_owned()));
            let all = value(answer).map_or_else(|| words().collect(), |value| vec![value]);
            content.push((field.key.clone(), FormAnswer::Several(all)));
            continue;
        }
        let chosen = value(answer);
        if chosen.is_none()
            && !field.options.is_empty()
            && let Some(custom) = &field.custom
        {
            content.push((custom.clone(), FormAnswer::Text(answer.clone())));
            continue;
        }
        let text = chosen.unwrap_or_else(|| answer.clone());
        let typed = match field.kind {
            FieldKind::Integer => text.trim().parse().ok().map(FormAnswer::Integer),
            FieldKind::Number => text.trim().parse().ok().map(FormAnswer::Number),
            FieldKind::Switch => text.trim().parse().ok().map(FormAnswer::Switched),
            FieldKind::Text | FieldKind::Several => None,
        };
        content.push((field.key.clone(), typed.unwrap_or(FormAnswer::Text(text))));
    }
    content
}

struct ShownOption {
    label: String,
    value: String,
    description: String,
}

/// The options of a field: a list of constants with titles, or an enumeration with or without names.
fn read_options(property: Raw<'_>) -> Vec<ShownOption> {
    let list = property.get("oneOf").or_else(|| property.get("anyOf"));
    if let Some(list) = list {
        let option = |option: Raw<'_>| {
            let text = |key: &str| Some(option.get(key)?.text()?.decode().into_owned());
            let value = text("const")?;
            let label = text("title").unwrap_or_else(|| value.clone());
            Some(ShownOption { label, value, description: text("description").unwrap_or_default() })
        };
        return list.items().filter_map(option).collect();
    }
    let texts = |key: &str| -> Vec<String> {
        let items = property.get(key).into_iter().flat_map(Raw::items);
        items.filter_map(Raw::text).map(String::from).collect()
    };
    let (values, names) = (texts("enum"), texts("enumNames"));
    let option = |(at, value): (usize, String)| ShownOption {
        label: names.get(at).unwrap_or(&value).clone(),
        value,
        description: String::new(),
    };
    values.into_iter().enumerate().map(option).collect()
}
