//! Kubernetes manifests of a fleet: a Secret, a Job of agents, and a `DaemonSet` of observers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::error::FleetError;

/// Folder of the Secret in a container.
const SECRETS: &str = "/etc/bakeoff";
/// Folder of an observer's archive, in the container and on the node.
const OBSERVED: &str = "/var/lib/bakeoff/observed";
/// Unprivileged user and group of an agent.
const USER: u32 = 65_532;
/// A Job ends all its agents after so many failures of any: the others must continue.
const FAILURES_MAX: u32 = 1_000_000;

/// A fleet in a cluster.
#[derive(Clone)]
pub struct Pods {
    /// Name of its objects.
    pub name: String,
    /// Number of agents.
    pub agents: u32,
    /// Image with the program.
    pub image: String,
    /// The program in the image.
    pub program: String,
    /// Address of the NATS server, which may contain a password.
    pub url: String,
    /// Seed of the agents' `NKey`.
    pub nkey: Option<String>,
    /// Certificates to trust besides the system's (PEM).
    pub ca: Option<String>,
    /// CPUs that each agent requests.
    pub cpus: u32,
    /// Memory of each agent in MiB.
    pub memory_mib: u32,
    /// Whether an observer runs on each node.
    pub observers: bool,
}

impl std::fmt::Debug for Pods {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pods").field("name", &self.name).field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// The manifests in YAML. They contain the key.
///
/// # Errors
///
/// [`FleetError::Unfit`] if Kubernetes does not take the name.
pub fn manifests(pods: &Pods) -> Result<String, FleetError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &pods.name;
    let is_name = (1..=50).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with(|c: char| !c.is_ascii_lowercase())
        && !name.ends_with('-');
    if !is_name {
        let text =
            format!("invalid name {name}: Kubernetes takes lower-case letters, digits and -, at most 50");
        return Err(FleetError::Unfit(text));
    }
    let mut objects = vec![secret(pods), job(pods)];
    if pods.observers {
        objects.push(daemon_set(pods));
    }
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        yaml(&object, 0, &mut text);
    }
    Ok(text)
}

fn labels(pods: &Pods, component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "bakeoff",
        "app.kubernetes.io/instance": pods.name,
        "app.kubernetes.io/component": component,
    })
}

fn secret(pods: &Pods) -> Value {
    let mut data = json!({"url": pods.url});
    for (name, value) in [("nkey", &pods.nkey), ("ca.pem", &pods.ca)] {
        if let Some(value) = value {
            data[name] = value.as_str().into();
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": pods.name, "labels": labels(pods, "agent")},
        "type": "Opaque",
        "stringData": data,
    })
}

fn job(pods: &Pods) -> Value {
    let mut arguments = vec!["agent".to_owned(), "--id".to_owned(), "$(POD_NAME)".to_owned()];
    let mut give = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    give("--server", format!("{{file:{SECRETS}/url}}"));
    if pods.nkey.is_some() {
        give("--nkey", format!("{SECRETS}/nkey"));
    }
    if pods.ca.is_some() {
        give("--ca", format!("{SECRETS}/ca.pem"));
    }
    // A volume's own folder belongs to root.
    give("--spool", "/spool/agent".to_owned());
    agents(pods, &agent(pods, &arguments))
}

/// The container of an agent.
fn agent(pods: &Pods, arguments: &[String]) -> Value {
    let memory = format!("{}Mi", pods.memory_mib);
    json!({
        "name": "agent",
        "image": pods.image,
        "command": [pods.program],
        "args": arguments,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        // A limit of CPU time would stop the generator in the middle of a measurement.
        "resources": {
            "requests": {"cpu": pods.cpus.to_string(), "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "secrets", "mountPath": SECRETS, "readOnly": true},
            {"name": "spool", "mountPath": "/spool"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

/// The Job of agents with this container.
fn agents(pods: &Pods, container: &Value) -> Value {
    let spread = json!([{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels(pods, "agent")},
    }]);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": pods.name, "labels": labels(pods, "agent")},
        "spec": {
            "parallelism": pods.agents,
            "completions": pods.agents,
            "backoffLimit": FAILURES_MAX,
            "template": {
                "metadata": {"labels": labels(pods, "agent")},
                "spec": {
                    // A container that is started again has the name and the spool of the one before.
                    "restartPolicy": "OnFailure",
                    "terminationGracePeriodSeconds": 60,
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "topologySpreadConstraints": spread,
                    "containers": [container],
                    "volumes": [
                        {"name": "secrets", "secret": {"secretName": pods.name, "defaultMode": 0o440}},
                        {"name": "spool", "emptyDir": {}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

fn daemon_set(pods: &Pods) -> Value {
    let name = format!("{}-observer", pods.name);
    let record = ["record", "--time", "1h", "--observe", "all", "--archive", OBSERVED];
    let container = json!({
        "name": "observer",
        "image": pods.image,
        "command": [pods.program],
        "args": record,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsUser": 0,
            "capabilities": {"drop": ["ALL"], "add": ["BPF", "PERFMON", "SYS_RESOURCE", "SYS_PTRACE"]},
        },
        "volumeMounts": [
            {"name": "observed", "mountPath": OBSERVED},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "labels": labels(pods, "observer")},
        "spec": {
            "selector": {"matchLabels": labels(pods, "observer")},
            "template": {
                "metadata": {"labels": labels(pods, "observer")},
                "spec": {
                    // The processes of the node, and their names.
                    "hostPID": true,
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": 60,
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                    "volumes": [
                        {"name": "observed", "hostPath": {"path": OBSERVED, "type": "DirectoryOrCreate"}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

/// Writes a value as lines of YAML. Texts are in double quotes, with the escapes of JSON, which YAML has too.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let is_block = |value: &Value| match value {
        Value::Object(values) => !values.is_empty(),
        Value::Array(values) => !values.is_empty(),
        _ => false,
    };
    let margin = "  ".repeat(indent);
    match value {
        Value::Object(values) => {
            for (name, value) in values {
                let _ = write!(out, "{margin}{name}:");
                if is_block(value) {
                    out.push('\n');
                    yaml(value, indent + 1, out);
                } else {
                    let _ = writeln!(out, " {value}");
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                if is_block(value) {
                    // The first line of the element begins after the dash.
                    let mut element = String::new();
                    yaml(value, indent + 1, &mut element);
                    let _ = write!(out, "{margin}- {}", element.trim_start());
                } else {
                    let _ = writeln!(out, "{margin}- {value}");
                }
            }
        }
        plain => {
            let _ = writeln!(out, "{margin}{plain}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Pods {
        Pods {
            name: "lab".to_owned(),
            agents: 4,
            image: "registry.example/bakeoff:1".to_owned(),
            program: "bakeoff".to_owned(),
            url: "tls://lab.example:4222".to_owned(),
            nkey: Some("SUSECRET".to_owned()),
            ca: None,
            cpus: 2,
            memory_mib: 512,
            observers: false,
        }
    }

    #[test]
    fn only_the_secret_has_the_key_and_agents_have_no_privilege() {
        let text = manifests(&Pods { observers: true, ..pods() }).unwrap();
        let objects: Vec<&str> = text.split("---\n").filter(|object| !object.is_empty()).collect();
        let with = |text: &str| objects.iter().map(|object| object.contains(text)).collect::<Vec<_>>();
        assert_eq!(with("SUSECRET"), [true, false, false]);
        assert_eq!(with("kind: \"Job\""), [false, true, false]);
        assert_eq!(with("runAsNonRoot: true"), [false, true, false]);
        assert_eq!(with("hostPID"), [false, false, true]);
        assert!(!objects[1].contains("add:") && !objects[1].contains("hostPath"), "{}", objects[1]);
        assert!(!format!("{:?}", pods()).contains("SUSECRET"));
        assert_eq!(manifests(&pods()).unwrap().matches("---").count(), 2, "observers are extra");
    }

    #[test]
    fn a_text_stays_one_text() {
        let image = "x\"\n  privileged: true #: [".to_owned();
        let text = manifests(&Pods { image, ..pods() }).unwrap();
        assert!(text.contains(r#"image: "x\"\n  privileged: true #: [""#), "{text}");
    }

    #[test]
    fn a_name_is_one_that_kubernetes_takes() {
        for name in ["Lab", "lab_1", "-lab", "lab-", "1lab", "", "lab\nkind: Pod"] {
            assert!(manifests(&Pods { name: name.to_owned(), ..pods() }).is_err(), "{name}");
        }
    }
}
