//! The documents as JSON values. References are resolved where a test reads them.

pub mod hub;

use jsonschema::Validator;
use serde_json::{Value, json};
use upesi_apidocs::ApiPort;

pub const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

/// A document as it is served.
pub struct Document(pub Value);

/// One method of one path.
pub struct Operation<'a> {
    pub path: &'a str,
    /// In capitals.
    pub method: String,
    /// The path's own members, such as its parameters.
    pub item: &'a Value,
    pub value: &'a Value,
}

impl Document {
    pub fn of(surface: ApiPort) -> Self {
        let text = String::from_utf8(surface.file("/openapi.yaml").unwrap().content().to_vec()).unwrap();
        let value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{surface:?}: {error}"));
        Self(value)
    }

    pub fn both() -> [(ApiPort, Self); 2] {
        [ApiPort::Fspiop, ApiPort::Admin].map(|surface| (surface, Self::of(surface)))
    }

    /// The value itself, or the target of its `$ref`.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref") {
            None => value,
            Some(reference) => {
                let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
                let found = pointer.and_then(|pointer| self.0.pointer(pointer));
                self.resolve(found.unwrap_or_else(|| panic!("nothing at {reference}")))
            }
        }
    }

    pub fn operations(&self) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for method in METHODS {
                if let Some(value) = item.get(method) {
                    operations.push(Operation { path, method: method.to_uppercase(), item, value });
                }
            }
        }
        operations
    }

    pub fn operation(&self, id: &str) -> Operation<'_> {
        let found = self.operations().into_iter().find(|operation| operation.id() == id);
        found.unwrap_or_else(|| panic!("no operation {id}"))
    }

    /// A validator of a schema, which may refer to the document's components.
    pub fn validator(&self, schema: &Value) -> Validator {
        let root = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "components": self.0["components"],
            "allOf": [schema],
        });
        jsonschema::validator_for(&root).unwrap_or_else(|error| panic!("{schema}: {error}"))
    }

    /// Asserts that a value fits a schema.
    pub fn assert_valid(&self, schema: &Value, value: &Value, what: &str) {
        let validator = self.validator(schema);
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at '{}'", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{what}: {errors:?}\n{value:#}");
    }

    /// The examples of a media type, a parameter or a header, with their names.
    pub fn examples<'a>(&'a self, holder: &'a Value) -> Vec<(String, &'a Value)> {
        let one = holder.get("example").map(|example| ("example".to_owned(), example));
        let many = holder.get("examples").and_then(Value::as_object).into_iter().flatten();
        let many = many.map(|(name, example)| (name.clone(), &self.resolve(example)["value"]));
        one.into_iter().chain(many).collect()
    }

    /// Parameters of the path and of the method, resolved.
    pub fn parameters<'a>(&'a self, operation: &Operation<'a>) -> Vec<&'a Value> {
        let lists = [operation.item.get("parameters"), operation.value.get("parameters")];
        let parameters = lists.into_iter().flatten().flat_map(|list| list.as_array().unwrap());
        parameters.map(|parameter| self.resolve(parameter)).collect()
    }

    /// The path with the examples of its parameters, optionally with a query of all query parameters with an example.
    pub fn target(&self, operation: &Operation<'_>, with_query: bool) -> String {
        let mut path = operation.path.to_owned();
        let mut query = Vec::new();
        for parameter in self.parameters(operation) {
            let name = parameter["name"].as_str().unwrap();
            let Some(example) = parameter.get("example").map(to_text) else { continue };
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), &example),
                "query" if with_query => query.push(format!("{name}={example}")),
                _ => {}
            }
        }
        assert!(!path.contains('{'), "{path} lacks an example");
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// The media type and content of the request's body.
    pub fn request_body<'a>(&'a self, operation: &Operation<'a>) -> Option<(&'a str, &'a Value)> {
        let body = self.resolve(operation.value.get("requestBody")?);
        let (media_type, content) = body["content"].as_object().unwrap().iter().next().unwrap();
        Some((media_type, content))
    }

    /// The statuses of successes and of operations that are not implemented. The route alone decides them.
    pub fn success_statuses(&self, operation: &Operation<'_>) -> Vec<u16> {
        let responses = operation.value["responses"].as_object().unwrap();
        let statuses = responses.keys().filter_map(|status| status.parse::<u16>().ok());
        statuses.filter(|status| (200..300).contains(status)).collect()
    }
}

impl Operation<'_> {
    pub fn id(&self) -> &str {
        self.value["operationId"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// A scalar as it is written in a path or header.
pub fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
