//! The graph of crates that cargo reports, and the crates that may use an external dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The direct dependencies of each crate of the workspace (normal and build dependencies).
fn direct_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs, since it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let name = |v: &Value| v["name"].as_str().expect("packages have names").to_owned();
    packages
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().expect("a list of dependencies").iter();
            (name(package), used.filter(|d| d["kind"] != "dev").map(name).collect())
        })
        .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_crates_use_each_other_as_the_drawing_says() {
    let all = direct_dependencies();
    let short = |name: &str| name.strip_prefix("bakeoff-").unwrap_or(name).to_owned();
    let drawing: Vec<String> = all
        .iter()
        .map(|(name, used)| {
            let ours: Vec<String> = used.iter().filter(|u| all.contains_key(*u)).map(|u| short(u)).collect();
            let ours = if ours.is_empty() { "nothing of ours".to_owned() } else { ours.join(", ") };
            format!("{} -> {ours}", short(name))
        })
        .collect();
    insta::assert_snapshot!(drawing.join(
        "
"
    ));
}

#[test]
fn an_outsider_is_used_only_behind_the_crate_that_needs_it() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let fences: toml::Table = text.parse().expect("deny.toml is TOML");
    let fences = fences["bans"]["deny"].as_array().expect("a list of fences");
    for (name, used) in direct_dependencies() {
        for fence in fences {
            let outsider = fence["name"].as_str().expect("a fence has a name");
            let may = fence["wrappers"].as_array().expect("a fence says who may").iter();
            assert!(
                !used.contains(outsider) || may.map(|w| w.as_str()).any(|w| w == Some(&name)),
                "{name} uses {outsider}, which deny.toml keeps behind other crates"
            );
        }
    }
}
