//! Queries that we publish for the index run on its tables.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::super::{Two, measure};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A query with values in place of Grafana's macros and variables.
fn plain(sql: &str) -> String {
    let mut sql = sql.replace("IN ($kind)", "IN ('load', 'bakeoff')");
    while let Some(begin) = sql.find("$__timeFilter(") {
        let inner = begin + "$__timeFilter(".len();
        let mut depth = 1;
        let end = sql[inner..].find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let end = inner + end.unwrap();
        let filter = format!("{} BETWEEN now() - interval '30 days' AND now()", &sql[inner..end]);
        sql.replace_range(begin..=end, &filter);
    }
    assert!(!sql.contains('$'), "{sql}");
    sql
}

#[test]
fn the_dashboard_reads_the_tables_of_the_index() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let text = fs::read_to_string(root().join("packaging/grafana/shared-archive.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["type"], "datasource");
    assert_eq!(two.server.sql(&plain(variables[1]["query"].as_str().unwrap())), "load");
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        let target = &panel["targets"][0];
        assert_eq!(target["datasource"]["uid"], "${datasource}");
        let rows = two.server.sql(&plain(target["rawSql"].as_str().unwrap()));
        let title = panel["title"].as_str().unwrap();
        let is_of_valid = title != "Runs by reason";
        assert_eq!(!rows.is_empty(), is_of_valid, "{title}: {rows}");
        if panel["type"] == "table" {
            assert!(rows.contains(&id), "{rows}");
        }
    }
}

#[test]
fn the_documented_query_of_the_index_runs() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let page = fs::read_to_string(root().join("docs/shared-archive.md")).unwrap();
    let queries: Vec<&str> =
        page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let of_index: Vec<&&str> = queries.iter().filter(|sql| sql.contains("FROM run")).collect();
    assert!(!of_index.is_empty());
    for sql in of_index {
        assert!(two.server.sql(sql).contains(&id), "{sql}");
    }
}
