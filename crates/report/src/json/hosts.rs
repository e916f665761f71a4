//! `bakeoff.host/1`: one machine; `bakeoff.hosts/1`: several beside each other.

use record::environment::Environment;
use record::missing::Missing;
use serde_json::{Map, Value, json};

use super::object::Object;

/// The document of one machine: what programs look for most by name, and every fact by its dotted name.
pub fn host(environment: &Environment) -> Value {
    let word = |fact: &str| -> Result<String, Missing> {
        match environment.facts.get(fact) {
            Some(value) => value.clone(),
            None => Err(Missing::because("it was not asked for")),
        }
    };
    let number = |fact: &str| {
        word(fact).and_then(|text| {
            text.parse::<u64>().map_err(|_| Missing::because(format!("`{text}` is no whole number")))
        })
    };
    let cpu = Object::default()
        .maybe("model", word("cpu.model"))
        .maybe("sockets", number("cpu.sockets"))
        .maybe("cores", number("cpu.cores"))
        .maybe("threads", number("cpu.count"))
        .with("caches", group(environment, "cpu.cache."))
        .maybe("tlb", word("cpu.tlb"))
        .maybe("clock_mhz", word("cpu.clock_mhz"))
        .maybe("governor", word("cpu.governor"))
        .finish();
    let (mut facts, mut missing) = (Map::new(), Map::new());
    for (name, value) in &environment.facts {
        match value {
            Ok(value) => facts.insert(name.clone(), value.clone().into()),
            Err(why) => missing.insert(name.clone(), why.reason.clone().into()),
        };
    }
    Object::default()
        .with("schema", "bakeoff.host/1")
        .maybe("host", word("host.name"))
        .with("cpu", cpu)
        .with("numa", group(environment, "numa."))
        .maybe("memory_bytes", number("memory.bytes"))
        .maybe("kernel", word("kernel.release"))
        .maybe("virtualization", word("virtualization"))
        .with("mitigations", group(environment, "mitigation."))
        .with("facts", facts)
        .with("facts_missing", missing)
        .finish()
}

/// Several machines, and the names of the facts that differ.
pub fn hosts(hosts: &[(String, &Environment)]) -> Value {
    let differing: Vec<&str> =
        crate::page::facts(hosts).into_iter().filter(|fact| crate::page::differs(hosts, fact)).collect();
    let one = |(name, environment): &(String, &Environment)| json!({"name": name, "host": host(environment)});
    json!({
        "schema": "bakeoff.hosts/1",
        "hosts": hosts.iter().map(one).collect::<Vec<_>>(),
        "differing": differing,
    })
}

/// The facts that begin so, by the rest of their names.
fn group(environment: &Environment, prefix: &str) -> Value {
    let known = environment.facts.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(prefix)?.to_owned(), Value::from(value.as_ref().ok()?.clone())))
    });
    Value::Object(known.collect())
}
