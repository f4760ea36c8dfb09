//! TypeScript declarations of the API's schemas, for the type checker of the page.
//!
//! `web/js/gateway.d.ts` is generated: the test here compares it with the OpenAPI document, and
//! writes it if `UPDATE_TYPES` is set.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const HEADER: &str = "\
// Generated from the OpenAPI document; do not edit. Update it with
// `UPDATE_TYPES=1 cargo test -p towpath-gateway typescript`.
";

/// Declares every schema of an OpenAPI document.
fn declarations(document: &Value) -> String {
    let mut out = String::from(HEADER);
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        out.push('\n');
        write_comment(schema, "", &mut out);
        if let Some(fields) = schema["properties"].as_object()
            && schema["type"] == "object"
        {
            let _ = writeln!(out, "export interface {name} {{");
            write_fields(fields, schema, &mut out);
            out.push_str("}\n");
        } else {
            let _ = writeln!(out, "export type {name} = {};", type_of(schema));
        }
    }
    out
}

fn write_fields(fields: &Map<String, Value>, schema: &Value, out: &mut String) {
    for (name, field) in fields {
        write_comment(field, "  ", out);
        let optional = if is_required(name, schema) { "" } else { "?" };
        let _ = writeln!(out, "  {name}{optional}: {};", type_of(field));
    }
}

fn is_required(name: &str, schema: &Value) -> bool {
    schema["required"].as_array().into_iter().flatten().any(|it| it == name)
}

fn write_comment(schema: &Value, indent: &str, out: &mut String) {
    if let Some(text) = schema["description"].as_str() {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "{indent}/** {text} */");
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    for (key, separator) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[key].as_array() {
            let parts: Vec<String> = parts.iter().map(type_of).collect();
            return parts.join(separator);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(name) => named_type(name, schema),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(|name| named_type(name, schema)).collect::<Vec<_>>().join(" | ")
        }
        _ => "unknown".to_owned(),
    }
}

fn named_type(name: &str, schema: &Value) -> String {
    match name {
        "integer" | "number" => "number".to_owned(),
        "array" => match schema["prefixItems"].as_array() {
            Some(items) => {
                format!("[{}]", items.iter().map(type_of).collect::<Vec<_>>().join(", "))
            }
            None => match type_of(&schema["items"]) {
                union if union.contains(' ') => format!("({union})[]"),
                simple => format!("{simple}[]"),
            },
        },
        "object" => match schema["properties"].as_object() {
            Some(fields) => {
                let field = |(name, field): (&String, &Value)| {
                    let optional = if is_required(name, schema) { "" } else { "?" };
                    format!("{name}{optional}: {}", type_of(field))
                };
                format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join("; "))
            }
            None if schema["additionalProperties"].is_object() => {
                format!("Record<string, {}>", type_of(&schema["additionalProperties"]))
            }
            None => "Record<string, unknown>".to_owned(),
        },
        other => other.to_owned(),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads whether to update its file")]
fn the_page_has_the_types_of_the_openapi_document() {
    let document = super::openapi::complete(super::operations().get_openapi());
    let declarations = declarations(&document);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/js/gateway.d.ts");
    if std::env::var_os("UPDATE_TYPES").is_some() {
        std::fs::write(&path, &declarations).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert_eq!(stored, declarations, "run this test with `UPDATE_TYPES=1`");
}
