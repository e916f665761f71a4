//! Names of cgroups.

/// Container of a cgroup, recognized by the path that the container engine uses: `docker 4f3ab2c91d02`.
///
/// `None` also for a container with a path that is configured differently.
pub fn container(name: &str) -> Option<String> {
    name.split('/').rev().find_map(|part| {
        let unit = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service")).unwrap_or(part);
        let (engine, id) = unit.rsplit_once(['-', ':']).unwrap_or(("", unit));
        let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id {
            let engine = match engine {
                "" if name.contains("/docker/") => "docker",
                "" if name.contains("/kubepods") => "kubernetes",
                "" => "container",
                other => other,
            };
            return Some(format!("{engine} {}", &id[..12]));
        }
        let machine = unit.strip_prefix("machine-").filter(|_| part.strip_suffix(".scope").is_some());
        let named = machine.or_else(|| unit.strip_prefix("lxc.payload."));
        named.filter(|n| !n.is_empty()).map(|n| format!("container {n}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_the_paths_that_their_engines_give_them() {
        let id = "4f3ab2c91d0256ee4f3ab2c91d0256ee4f3ab2c91d0256ee4f3ab2c91d0256ee";
        for (name, container_of) in [
            (format!("/system.slice/docker-{id}.scope"), Some("docker 4f3ab2c91d02")),
            (format!("/docker/{id}"), Some("docker 4f3ab2c91d02")),
            (format!("/machine.slice/libpod-{id}.scope/container"), Some("libpod 4f3ab2c91d02")),
            (
                format!("/kubepods.slice/kubepods-pod7.slice/cri-containerd-{id}.scope"),
                Some("cri-containerd 4f3ab2c91d02"),
            ),
            (format!("/kubepods/besteffort/pod7/{id}"), Some("kubernetes 4f3ab2c91d02")),
            ("/lxc.payload.web".into(), Some("container web")),
            ("/machine.slice/machine-deb.scope".into(), Some("container deb")),
            ("/system.slice/ssh.service".into(), None),
            ("/".into(), None),
        ] {
            assert_eq!(container(&name).as_deref(), container_of, "{name}");
        }
    }
}
