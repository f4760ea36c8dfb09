//! Validation against the part of JSON Schema that structured output uses, in the words of 2.1.325.
//!
//! Keywords that are not listed here are ignored, as annotations are.

use serde_json::Value;

const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema whose types are known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonSchema(Value);

impl JsonSchema {
    /// Accepts a schema, or says what is wrong with it.
    pub(crate) fn new(schema: Value) -> Result<Self, String> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err("schema must be object,boolean".to_owned());
        }
        check_types(&schema)?;
        Ok(Self(schema))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// Everything that is wrong with a value; nothing if it matches.
    pub(crate) fn errors(&self, value: &Value) -> Vec<String> {
        let mut check = SchemaCheck { root: &self.0, errors: Vec::new(), depth: 0 };
        check.value(&self.0, value, "");
        check.errors
    }
}

fn check_types(schema: &Value) -> Result<(), String> {
    let known = |it: &Value| it.as_str().is_some_and(|name| TYPES.contains(&name));
    match &schema["type"] {
        Value::Null => {}
        Value::Array(types) if types.iter().all(known) => {}
        name if known(name) => {}
        _ => {
            return Err("data/type must be equal to one of the allowed values, data/type must be \
                        array, data/type must match a schema in anyOf"
                .to_owned());
        }
    }
    for key in ["properties", "$defs", "definitions"] {
        for (_, part) in schema[key].as_object().into_iter().flatten() {
            check_types(part)?;
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for part in schema[key].as_array().into_iter().flatten() {
            check_types(part)?;
        }
    }
    check_types_of(&schema["items"])
}

fn check_types_of(part: &Value) -> Result<(), String> {
    if part.is_object() { check_types(part) } else { Ok(()) }
}

/// How deep references may lead, so that a schema that refers to itself ends.
const MAX_DEPTH: usize = 64;

/// A keyword for numbers, its sign and what it demands.
type NumberLimit = (&'static str, &'static str, fn(f64, f64) -> bool);

struct SchemaCheck<'a> {
    root: &'a Value,
    errors: Vec<String>,
    depth: usize,
}

impl<'a> SchemaCheck<'a> {
    fn add(&mut self, path: &str, message: impl std::fmt::Display) {
        let path = if path.is_empty() { "root" } else { path };
        self.errors.push(format!("{path}: {message}"));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &str) {
        if *schema == Value::Bool(false) {
            self.add(path, "boolean schema is false");
        }
        if self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
        if let Some(target) = reference.and_then(|it| self.root.pointer(it)) {
            self.value(target, value, path);
        }
        if self.has_type(schema, value, path) {
            self.constants(schema, value, path);
            self.number(schema, value, path);
            self.string(schema, value, path);
            self.array(schema, value, path);
            self.object(schema, value, path);
            self.combined(schema, value, path);
        }
        self.depth -= 1;
    }

    fn has_type(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let types: Vec<&str> = match &schema["type"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        if types.iter().any(|name| is_of_type(value, name)) {
            return true;
        }
        self.add(path, format!("must be {}", types.join(",")));
        false
    }

    fn constants(&mut self, schema: &Value, value: &Value, path: &str) {
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            let allowed = &schema["enum"];
            self.add(path, format!("must be equal to one of the allowed values: {allowed}"));
        }
        if let Some(constant) = schema.get("const")
            && constant != value
        {
            self.add(path, format!("must be equal to constant: {constant}"));
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let limits: [NumberLimit; 4] = [
            ("maximum", "<=", |number, limit| number <= limit),
            ("minimum", ">=", |number, limit| number >= limit),
            ("exclusiveMaximum", "<", |number, limit| number < limit),
            ("exclusiveMinimum", ">", |number, limit| number > limit),
        ];
        for (key, sign, holds) in limits {
            if let Some(limit) = schema[key].as_f64()
                && !holds(number, limit)
            {
                self.add(path, format!("must be {sign} {}", schema[key]));
            }
        }
    }

    fn string(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(text) = value.as_str() else { return };
        self.length(schema, text.chars().count(), "Length", "characters", path);
    }

    /// Checks `minLength` and the like.
    fn length(&mut self, schema: &Value, length: usize, suffix: &str, unit: &str, path: &str) {
        let limit = |key: &str| schema[format!("{key}{suffix}")].as_u64();
        if let Some(most) = limit("max")
            && length as u64 > most
        {
            self.add(path, format!("must NOT have more than {most} {unit} (got {length})"));
        }
        if let Some(least) = limit("min")
            && (length as u64) < least
        {
            self.add(path, format!("must NOT have fewer than {least} {unit} (got {length})"));
        }
    }

    fn array(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let Some(items) = value.as_array() else { return };
        self.length(schema, items.len(), "Items", "items", path);
        if let Some(part) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.value(part, item, &format!("{path}/{index}"));
            }
        }
    }

    fn object(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let Some(object) = value.as_object() else { return };
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !object.contains_key(*name)) {
            self.add(path, format!("must have required property '{name}'"));
        }
        let properties = &schema["properties"];
        for name in object.keys().filter(|name| properties.get(name.as_str()).is_none()) {
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => self.add(
                    path,
                    format!("must NOT have additional properties ('{name}' is not allowed)"),
                ),
                Some(part) => self.value(part, &object[name], &format!("{path}/{name}")),
                None => {}
            }
        }
        for (name, part) in properties.as_object().into_iter().flatten() {
            if let Some(value) = object.get(name) {
                self.value(part, value, &format!("{path}/{name}"));
            }
        }
    }

    fn combined(&mut self, schema: &'a Value, value: &Value, path: &str) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.value(part, value, path);
        }
        for (key, message) in [
            ("anyOf", "must match a schema in anyOf"),
            ("oneOf", "must match exactly one schema in oneOf"),
        ] {
            let Some(parts) = schema[key].as_array() else { continue };
            let before = self.errors.len();
            let mut matches = 0;
            for part in parts {
                let start = self.errors.len();
                self.value(part, value, path);
                matches += usize::from(self.errors.len() == start);
            }
            if matches == 1 || (matches > 1 && key == "anyOf") {
                self.errors.truncate(before);
            } else {
                self.add(path, message);
            }
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonSchema;

    fn errors(schema: Value, value: &Value) -> String {
        JsonSchema::new(schema).unwrap().errors(value).join(", ")
    }

    #[test]
    fn what_does_not_match_is_described_in_the_words_of_the_cli() {
        // These texts are from 2.1.325.
        let schema = json!({
            "type": "object", "required": ["n", "s"], "additionalProperties": false,
            "properties": {
                "n": { "type": "integer", "minimum": 3 }, "s": { "enum": ["a", "b"] },
                "l": { "type": "array", "minItems": 2, "items": { "type": "string", "minLength": 2 } },
                "o": { "type": ["object", "null"], "required": ["x"] }, "c": { "const": 5 },
                "u": { "anyOf": [{ "type": "string" }, { "type": "number" }] },
            },
        });
        let cases = [
            (
                json!({}),
                "root: must have required property 'n', root: must have required property 's'",
            ),
            (
                json!({"n": 1, "s": "z", "l": [1], "o": {}, "c": 4, "u": true, "w": 1}),
                "root: must NOT have additional properties ('w' is not allowed), /n: must be >= 3, \
                 /s: must be equal to one of the allowed values: [\"a\",\"b\"], /l: must NOT have \
                 fewer than 2 items (got 1), /l/0: must be string, /o: must have required property \
                 'x', /c: must be equal to constant: 5, /u: must be string, /u: must be number, /u: \
                 must match a schema in anyOf",
            ),
            (json!({"n": 5, "s": "a", "o": 5}), "/o: must be object,null"),
            (json!({"n": 5, "s": "a", "u": 1.5, "o": null}), ""),
        ];
        for (value, expected) in cases {
            assert_eq!(errors(schema.clone(), &value), expected, "{value}");
        }
    }

    #[test]
    fn references_are_followed_and_a_schema_of_itself_ends() {
        let tree = json!({
            "$ref": "#/$defs/tree",
            "$defs": { "tree": { "type": "array", "items": { "$ref": "#/$defs/tree" } } },
        });
        assert_eq!(errors(tree.clone(), &json!([[], [[]]])), "");
        assert_eq!(errors(tree, &json!([[1]])), "/0/0: must be array");
        assert_eq!(errors(json!({"$ref": "#"}), &json!(1)), "");
    }

    #[test]
    fn an_unknown_type_is_no_schema() {
        assert!(JsonSchema::new(json!({"type": "wibble"})).is_err());
        assert!(JsonSchema::new(json!({"properties": {"n": {"type": "wibble"}}})).is_err());
        assert!(JsonSchema::new(json!(5)).is_err());
    }
}
