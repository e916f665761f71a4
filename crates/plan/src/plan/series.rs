//! The servers and the commands of a series, for each instance.

use std::path::{Path, PathBuf};

use record::bakeoff::Levels;

use super::Plan;
use crate::load::instance_folder;
use crate::phases::{Prepare, PreparePlan, ServerValues, Step, ValuePlan, When};
use crate::server::ServerSpec;
use crate::template::of_instance;

impl Plan {
    /// Number of instances of the server of a configuration; 1 without a server.
    pub fn instances(&self, levels: &Levels) -> u32 {
        self.server.as_ref().map_or(1, |server| server.instances.of(&self.at(levels), ""))
    }

    /// Folder of an instance, numbered from 1: that of the series if there is one.
    pub fn instance_folder(&self, levels: &Levels, scratch: &Path, number: u32) -> PathBuf {
        instance_folder(scratch, self.instances(levels), number)
    }

    /// Instances of the server of a series, in order; empty if the plan has no server.
    pub fn servers(&self, levels: &Levels, scratch: &Path) -> Vec<ServerSpec> {
        let Some(server) = &self.server else { return Vec::new() };
        let (all, levels) = (self.instances(levels), &self.at(levels));
        (1..=all).map(|i| server.of(levels, &instance_folder(scratch, all, i), i, all)).collect()
    }

    /// Account in `server.user`; `None`: the runner chooses.
    pub fn server_user(&self) -> Option<&str> {
        self.server.as_ref()?.user.as_deref()
    }

    /// Whether the plan has a server that bakeoff starts.
    pub fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Command before the start of an instance of the server, numbered from 1.
    pub fn setup(&self, levels: &Levels, scratch: &Path, number: u32) -> Option<Step> {
        let (levels, scratch) = self.at_instance(levels, scratch, number);
        self.setup.as_ref().map(|run| run.step(&levels, &scratch))
    }

    /// Source of the data set of a series; a command is that of an instance, numbered from 1.
    pub fn prepare(&self, levels: &Levels, scratch: &Path, number: u32) -> Prepare {
        let (levels, scratch) = self.at_instance(levels, scratch, number);
        match &self.prepare {
            PreparePlan::Builtin => Prepare::Builtin,
            PreparePlan::Nothing => Prepare::Nothing,
            PreparePlan::Run(run) => Prepare::Run(run.step(&levels, &scratch)),
        }
    }

    /// Command that checks data set and configuration after each measured phase, for an instance, numbered
    /// from 1.
    pub fn verify(&self, levels: &Levels, scratch: &Path, number: u32) -> Option<Step> {
        let (levels, scratch) = self.at_instance(levels, scratch, number);
        self.verify.as_ref().map(|run| run.step(&levels, &scratch))
    }

    /// Numbers that each trial collects after its measured phase: name, and the command that prints the
    /// number last. One command for all instances: `{scratch}` is the folder of the series.
    pub fn values(&self, levels: &Levels, scratch: &Path) -> Vec<(String, Step)> {
        let at_end = self.values.iter().filter(|value| value.when == When::End);
        at_end.map(|value| (value.name.clone(), value.run.step(&self.at(levels), scratch))).collect()
    }

    /// Numbers of an instance, numbered from 1, at the end of each interval.
    pub fn server_values(&self, levels: &Levels, scratch: &Path, number: u32) -> Vec<ServerValues> {
        self.told_by_server(When::Interval, levels, scratch, number)
    }

    /// Settings of an instance, numbered from 1, which are read before and after each trial.
    pub fn server_settings(&self, levels: &Levels, scratch: &Path, number: u32) -> Vec<ServerValues> {
        self.told_by_server(When::Settings, levels, scratch, number)
    }

    fn told_by_server(&self, when: When, levels: &Levels, scratch: &Path, number: u32) -> Vec<ServerValues> {
        let (levels, scratch) = self.at_instance(levels, scratch, number);
        let of = |value: &ValuePlan| ServerValues {
            name: value.name.clone(),
            step: value.run.step(&levels, &scratch),
            keep: value.keep.clone(),
        };
        self.values.iter().filter(|value| value.when == when).map(of).collect()
    }

    /// Levels and folder of an instance.
    fn at_instance(&self, levels: &Levels, scratch: &Path, number: u32) -> (Levels, PathBuf) {
        (of_instance(&self.at(levels), number), self.instance_folder(levels, scratch, number))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::bakeoff::Levels;

    fn plan(server: &str, more: &str) -> Result<crate::Plan, String> {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[factors.caches]\nvalues = [1, 2]\nreference = 1\nlevel = \"whole-plot\"\n\
             [factors.policy]\nvalues = [\"other\", \"batch\"]\nreference = \"other\"\nlevel = \"whole-plot\"\n\
             [factors.threads]\nvalues = [1, 2]\nlevel = \"sub-plot\"\n[design]\nblocks = 6\n[load]\n\
             target = \"redis+unix:{{scratch}}/s\"\nthreads = \"{{threads}}\"\n[server]\ncommand = \"s\"\nready = \"socket:{{scratch}}/s\"\n\
             {server}\n[phases]\nmeasure = {{ time = \"2s\" }}\n{more}"
        );
        crate::read(&text, "t.toml").map_err(|errors| errors.to_string())
    }

    fn levels(caches: u32, policy: &str) -> Levels {
        Levels::from([("caches".into(), caches.to_string()), ("policy".into(), policy.into())])
    }

    #[test]
    fn one_server_on_two_cpus_is_compared_with_two_servers_on_one_each() {
        let keys =
            "instances = \"{caches}\"\ncpus = \"0-1\"\nmem = \"0\"\nscheduler = \"{policy}\"\nnice = 3";
        let plan = plan(keys, "").unwrap();
        let [one, two] =
            [levels(1, "other"), levels(2, "batch")].map(|levels| plan.servers(&levels, Path::new("/s")));
        let cpus =
            |specs: &[crate::ServerSpec]| specs.iter().map(|s| s.cpus.clone().unwrap()).collect::<Vec<_>>();
        assert_eq!((cpus(&one), cpus(&two)), (vec![vec![0, 1]], vec![vec![0], vec![1]]));
        assert_eq!((one[0].mem.clone(), two[1].mem.clone()), (Some(vec![0]), Some(vec![0])));
        assert_eq!((one[0].scheduler, two[0].scheduler), (crate::Scheduler::Other, crate::Scheduler::Batch));
        assert_eq!(two[1].nice, 3);
        let target = |caches| plan.target(&levels(caches, "other"), Path::new("/s")).expose().to_owned();
        assert_eq!(target(1), "redis+unix:/s/s");
        assert_eq!(target(2), "redis+unix:/s/1/s\nredis+unix:/s/2/s");
        assert!(plan.notes().iter().all(|note| !note.text.contains("nothing uses")), "{:?}", plan.notes());
    }

    #[test]
    fn a_bad_level_of_a_place_has_its_line_and_column() {
        for (keys, place, says) in [
            ("instances = \"{policy}\"", "22:13", "`server.instances` is \"other\", expected a whole number"),
            ("instances = \"{threads}\"", "22:13", "uses the sub-plot factor `{threads}`"),
            ("instances = \"{caches}\"\ncpus = [\"0\"]", "23:8", "one list for each of the 2 instances"),
            (
                "instances = \"{caches}\"\ncpus = \"0-2\"",
                "23:8",
                "a list of 3 at caches=2, expected a list that 2",
            ),
            ("cpus = [\"0\", \"x\"]", "22:14", "`server.cpus` is \"x\", expected a list of CPUs"),
            ("cpus = [\"0\", \"{policy}\"]", "22:14", "`server.cpus` is \"other\", expected a list of CPUs"),
            ("cpus = 3", "22:8", "`server.cpus` is 3, expected a list of CPUs"),
            ("cpus = []", "22:8", "a list of 0, expected one list for each of the 1 instances"),
            ("mem = \"{polcy}\"", "22:7", "neither `scratch` nor a factor"),
            (
                "scheduler = \"{caches}\"",
                "22:13",
                "`server.scheduler` is \"1\", expected \"other\", \"batch\"",
            ),
            ("nice = \"{policy}\"", "22:8", "`server.nice` is \"other\", expected a number over -21"),
            ("nice = 1.5", "22:8", "`server.nice` is 1.5, expected a number over -21"),
            ("scheduler = \"{env:POLICY}\"", "22:13", "`server.scheduler`"),
        ] {
            let error = plan(keys, "").unwrap_err();
            let line =
                error.lines().find(|line| line.contains(says)).unwrap_or_else(|| panic!("{keys}: {error}"));
            assert!(line.starts_with(&format!("t.toml:{place}: ")), "{keys}: {line}");
        }
    }

    #[test]
    fn commands_that_ask_a_server_ask_each_instance() {
        let ask = "[values.info]\nrun = \"ask {scratch}/s {instance}\"\nwhen = \"interval\"\n[values.settings]\n\
                   run = \"settings {scratch}/s\"\nwhen = \"settings\"\n[values.size_bytes]\nrun = \"du {scratch}\"";
        let plan = plan("instances = 2", ask).unwrap();
        let (levels, scratch) = (levels(1, "other"), Path::new("/s"));
        let commands = |number| {
            let values = plan.server_values(&levels, scratch, number).into_iter();
            values
                .chain(plan.server_settings(&levels, scratch, number))
                .map(|v| v.step.command)
                .collect::<Vec<_>>()
        };
        assert_eq!(commands(1), ["ask /s/1/s 1", "settings /s/1/s"]);
        assert_eq!(commands(2), ["ask /s/2/s 2", "settings /s/2/s"]);
        assert_eq!(plan.values(&levels, scratch)[0].1.command, "du /s");
        let of_all = self::plan("instances = 2", "[values.size_bytes]\nrun = \"du {scratch}/{instance}\"")
            .unwrap_err();
        assert!(of_all.contains("`values.size_bytes.run` uses `{instance}`"), "{of_all}");
    }
}
