//! `bakeoff.host/1`: one machine; `bakeoff.hosts/1`: several side by side.

use record::environment::Environment;
use record::missing::Missing;
use serde_json::{Map, Value, json};

use super::object::Object;

/// The document of one machine: the most used facts under their own keys, and every fact by its dotted name.
pub fn host(environment: &Environment) -> Value {
    let word = |fact: &str| -> Result<String, Missing> {
        match environment.facts.get(fact) {
            Some(value) => value.clone(),
            None => Err(Missing::because("it was not recorded")),
        }
    };
    let number = |fact: &str| {
        word(fact).and_then(|text| {
            text.parse::<u64>().map_err(|_| Missing::because(format!("`{text}` is not a whole number")))
        })
    };
    let real = |fact: &str| {
        word(fact).and_then(|text| {
            text.parse::<f64>().map_err(|_| Missing::because(format!("`{text}` is not a number")))
        })
    };
    let cpu = Object::default()
        .maybe("model", word("cpu.model"))
        .maybe("sockets", number("cpu.sockets"))
        .maybe("cores", number("cpu.cores"))
        .maybe("threads", number("cpu.count"))
        .with("caches", caches(environment))
        .maybe("tlb", word("cpu.tlb"))
        .maybe("clock_mhz", real("cpu.clock_mhz"))
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

/// The document of several machines, with the names of the facts that differ.
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

/// The caches by name, as numbers. The fact itself is a sentence: `48 KiB, 12 ways, lines of 64 B, 1 CPU
/// each, 2 in all`.
fn caches(environment: &Environment) -> Value {
    let of = |(name, value): (&String, &Result<String, Missing>)| {
        Some(cache(name.strip_prefix("cpu.cache.")?, value.as_ref().ok()?))
    };
    environment.facts.iter().filter_map(of).collect()
}

fn cache(name: &str, sentence: &str) -> Value {
    let parts: Vec<&str> = sentence.split(", ").collect();
    let not_told = |what: &str| Missing::because(format!("the kernel does not report its {what}"));
    let number = |before: &str, after: &[&str], what: &str| {
        let told = parts.iter().find_map(|part| {
            let rest = part.strip_prefix(before)?;
            after.iter().find_map(|end| rest.strip_suffix(end))?.parse::<u64>().ok()
        });
        told.ok_or_else(|| not_told(what))
    };
    let size = number("", &[" KiB"], "size").map(|kib| kib * 1024);
    let size = size.or_else(|_| number("", &[" MiB", "M"], "size").map(|mib| mib * 1024 * 1024));
    Object::default()
        .with("name", name)
        .maybe("size_bytes", size)
        .maybe("ways", number("", &[" ways"], "ways"))
        .maybe("line_bytes", number("lines of ", &[" B"], "lines"))
        .maybe("cpus_each", number("", &[" CPU each", " CPUs each"], "sharing"))
        .maybe("count", number("", &[" in all"], "number"))
        .finish()
}

/// The facts with this prefix, by the rest of their names.
fn group(environment: &Environment, prefix: &str) -> Value {
    let known = environment.facts.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(prefix)?.to_owned(), Value::from(value.as_ref().ok()?.clone())))
    });
    Value::Object(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_in_numbers_and_what_is_not_told_says_so() {
        let l2 = cache("l2", "1024 KiB, 8 ways, lines of 64 B, 1 CPU each, 2 in all");
        let numbers = ["size_bytes", "ways", "line_bytes", "cpus_each", "count"].map(|k| l2[k].as_u64());
        assert_eq!(numbers, [1_048_576, 8, 64, 1, 2].map(Some));
        let l3 = cache("l3", "32 MiB, lines of 64 B, 16 CPUs each");
        assert_eq!((l3["size_bytes"].as_u64(), l3["cpus_each"].as_u64()), (Some(33_554_432), Some(16)));
        assert!(l3["ways"].is_null() && l3["missing"]["ways"].is_string(), "{l3}");
    }
}
