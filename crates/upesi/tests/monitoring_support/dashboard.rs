//! A dashboard as it is written (`monitoring/dashboards/*.toml`), and the form that Grafana reads.

use serde_json::{Value, json};
use toml::Table;

/// Columns of Grafana's grid.
const COLUMNS: i64 = 24;
const WIDTH_DEFAULT: i64 = 8;
const KINDS: [&str; 3] = ["timeseries", "stat", "bargauge"];
/// Units of Grafana that are in use here.
const UNITS: [&str; 9] = ["none", "short", "percentunit", "ops", "reqps", "s", "bytes", "Bps", "bool_yes_no"];

/// A query with what it is called.
pub struct Query {
    pub panel: String,
    pub expression: String,
}

pub struct Dashboard {
    pub source: Table,
}

fn text<'table>(table: &'table Table, name: &str) -> &'table str {
    table.get(name).and_then(toml::Value::as_str).unwrap_or_else(|| panic!("no {name} in {table}"))
}

fn tables<'table>(table: &'table Table, name: &str) -> Vec<&'table Table> {
    let list =
        table.get(name).and_then(toml::Value::as_array).unwrap_or_else(|| panic!("no {name} in {table}"));
    list.iter().map(|entry| entry.as_table().unwrap()).collect()
}

impl Dashboard {
    pub fn read(source: &str) -> Self {
        Self { source: source.parse().unwrap() }
    }

    pub fn uid(&self) -> &str {
        text(&self.source, "uid")
    }

    pub fn queries(&self) -> Vec<Query> {
        let mut found = Vec::new();
        for row in tables(&self.source, "row") {
            for panel in tables(row, "panel") {
                for query in tables(panel, "query") {
                    found.push(Query {
                        panel: format!("{} / {}", self.uid(), text(panel, "title")),
                        expression: text(query, "expr").to_owned(),
                    });
                }
            }
        }
        found
    }

    /// The JSON model, version 39 of its schema.
    pub fn to_json(&self) -> Value {
        let mut layout = Layout { panels: Vec::new(), x: 0, y: 0, height: 0 };
        for row in tables(&self.source, "row") {
            layout.row(text(row, "title"));
            tables(row, "panel").into_iter().for_each(|panel| layout.panel(panel));
        }
        json!({
            "uid": self.uid(),
            "title": text(&self.source, "title"),
            "description": text(&self.source, "description"),
            "tags": ["upesi"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": { "from": "now-30m", "to": "now" },
            "timezone": "browser",
            "annotations": { "list": [] },
            "links": [{
                "type": "dashboards", "title": "Upesi", "tags": ["upesi"], "asDropdown": true,
                "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "", "url": "",
            }],
            "templating": { "list": [
                { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0 },
                {
                    "name": "instance", "label": "Hub", "type": "query", "hide": 0, "refresh": 2, "sort": 1,
                    "datasource": source(), "includeAll": true, "multi": true, "allValue": ".*",
                    "query": "label_values(upesi_journal_seq, instance)",
                    "current": { "selected": true, "text": "All", "value": "$__all" },
                },
            ] },
            "panels": layout.panels,
        })
    }
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

struct Layout {
    panels: Vec<Value>,
    x: i64,
    y: i64,
    /// Of the line of panels that is being filled.
    height: i64,
}

impl Layout {
    fn id(&self) -> usize {
        self.panels.len() + 1
    }

    fn line_break(&mut self) {
        self.y += self.height;
        (self.x, self.height) = (0, 0);
    }

    fn row(&mut self, title: &str) {
        self.line_break();
        self.panels.push(json!({
            "id": self.id(), "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": self.y, "w": COLUMNS, "h": 1 },
        }));
        self.y += 1;
    }

    fn panel(&mut self, panel: &Table) {
        let kind = panel.get("kind").and_then(toml::Value::as_str).unwrap_or("timeseries");
        assert!(KINDS.contains(&kind), "{kind}");
        let unit = text(panel, "unit");
        assert!(UNITS.contains(&unit), "{unit}");
        let number = |name: &str| panel.get(name).and_then(toml::Value::as_integer);
        let width = number("width").unwrap_or(WIDTH_DEFAULT);
        let height = if kind == "stat" { 4 } else { 8 };
        if self.x + width > COLUMNS {
            self.line_break();
        }
        let mut defaults = json!({
            "unit": unit,
            "color": { "mode": if kind == "timeseries" { "palette-classic" } else { "thresholds" } },
            "thresholds": { "mode": "absolute", "steps": steps(panel) },
            "mappings": mappings(panel),
            "min": 0,
            "custom": custom(panel, kind),
        });
        if kind != "timeseries" {
            defaults.as_object_mut().unwrap().remove("custom");
        }
        if let Some(max) = number("max") {
            defaults["max"] = max.into();
        }
        if panel.get("below_zero").and_then(toml::Value::as_bool).unwrap_or(false) {
            defaults.as_object_mut().unwrap().remove("min");
        }
        let position = json!({ "x": self.x, "y": self.y, "w": width, "h": height });
        self.panels.push(json!({
            "id": self.id(), "type": kind, "title": text(panel, "title"), "description": text(panel, "about"),
            "datasource": source(), "gridPos": position, "targets": targets(panel),
            "fieldConfig": { "defaults": defaults, "overrides": [] },
            "options": options(kind),
        }));
        self.x += width;
        self.height = self.height.max(height);
    }
}

fn targets(panel: &Table) -> Vec<Value> {
    let letters = 'A'..='Z';
    let target = |(query, letter): (&Table, char)| {
        json!({
            "refId": letter.to_string(), "datasource": source(), "editorMode": "code", "range": true,
            "expr": text(query, "expr"), "legendFormat": text(query, "legend"),
        })
    };
    tables(panel, "query").into_iter().zip(letters).map(target).collect()
}

fn steps(panel: &Table) -> Vec<Value> {
    let Some(given) = panel.get("thresholds") else {
        return vec![json!({ "color": "green", "value": null })];
    };
    let step = |(index, step): (usize, &toml::Value)| {
        let pair = step.as_array().unwrap();
        let value = match &pair[0] {
            _ if index == 0 => Value::Null,
            toml::Value::Integer(number) => (*number).into(),
            toml::Value::Float(number) => (*number).into(),
            other => panic!("{other} is no threshold"),
        };
        json!({ "color": pair[1].as_str().unwrap(), "value": value })
    };
    given.as_array().unwrap().iter().enumerate().map(step).collect()
}

fn mappings(panel: &Table) -> Vec<Value> {
    let Some(values) = panel.get("values").and_then(toml::Value::as_table) else { return Vec::new() };
    let option = |(index, (value, words)): (usize, (&String, &toml::Value))| {
        (value.clone(), json!({ "index": index, "text": words.as_str().unwrap() }))
    };
    let options: serde_json::Map<_, _> = values.iter().enumerate().map(option).collect();
    vec![json!({ "type": "value", "options": options })]
}

fn custom(panel: &Table, kind: &str) -> Value {
    let is_stacked = panel.get("stack").and_then(toml::Value::as_bool).unwrap_or(false);
    if kind != "timeseries" {
        return Value::Null;
    }
    json!({
        "drawStyle": "line", "lineWidth": 1, "fillOpacity": if is_stacked { 25 } else { 8 }, "showPoints": "never",
        "spanNulls": false, "stacking": { "mode": if is_stacked { "normal" } else { "none" }, "group": "A" },
    })
}

fn options(kind: &str) -> Value {
    let reduce = json!({ "calcs": ["lastNotNull"], "fields": "", "values": false });
    match kind {
        "stat" => json!({
            "reduceOptions": reduce, "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto",
            "orientation": "auto",
        }),
        "bargauge" => json!({
            "reduceOptions": reduce, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true,
            "valueMode": "color",
        }),
        _ => json!({
            "legend": { "displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["mean", "max"] },
            "tooltip": { "mode": "multi", "sort": "desc" },
        }),
    }
}
