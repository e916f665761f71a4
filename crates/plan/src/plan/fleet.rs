//! Generators of the load: CPUs of this machine, or the agents of a fleet.

use std::path::Path;

use record::agents::FleetSettings;
use record::arrivals::Arrivals;
use record::load::LoadSettings;

use super::Plan;
use crate::server::ClientCpus;

impl Plan {
    /// Agents that generate the load; `None` if this machine does.
    pub fn fleet(&self) -> Option<&FleetSettings> {
        self.fleet.as_ref()
    }

    /// CPUs of the threads of the load; `None`: all.
    pub fn client(&self) -> Option<&ClientCpus> {
        self.client.as_ref()
    }

    /// Reason that the threads of the load cannot have CPUs of the plan.
    pub(crate) fn no_client(&self) -> Option<String> {
        self.client.as_ref()?;
        let why =
            "a target other than exec: its commands would run on the CPUs of the threads that start them";
        self.load_is_commands().then(|| why.to_owned())
    }

    /// Reasons that a fleet cannot generate the load of the plan: expected text of each.
    pub(crate) fn no_fleet(&self, agents: u32) -> Vec<String> {
        let mut refused: Vec<String> = Vec::new();
        let mut refuse = |is: bool, expected: &str| {
            if is {
                refused.push(expected.to_owned());
            }
        };
        refuse(self.client.is_some(), "no `[client]`: it names CPUs of this machine");
        refuse(self.slices.is_some(), "`design.mode = \"series\"`: the load of a fleet takes no turns");
        refuse(
            self.warmup.is_judged(),
            "no `phases.warm-up.judge`: the warm-up of a fleet has a fixed length",
        );
        refuse(
            self.rate_to_find().is_some(),
            "`load.rate` as a number or \"max\": rates are found with one generator",
        );
        refuse(self.load.script.is_some(), "no `load.script`: agents run no scripts");
        let first = self.trials().into_iter().filter(|trial| trial.block == 1);
        let all: Vec<LoadSettings> =
            first.map(|trial| self.load_settings(&trial, Path::new("/scratch"))).collect();
        let is_local = |settings: &LoadSettings| matches!(settings.target.scheme(), "exec" | "dd" | "sqlite");
        refuse(all.iter().any(is_local), "a server that other machines can reach: not exec:, dd: or sqlite:");
        let is_recorded = |settings: &LoadSettings| {
            settings.pace.as_open().is_some_and(|open| matches!(open.arrivals, Arrivals::File(_)))
        };
        refuse(all.iter().any(is_recorded), "no recorded `load.arrivals`");
        let least = all.iter().map(|settings| settings.threads).min().unwrap_or(agents);
        if least < agents {
            refused.push(format!("at most {least}, the threads of a cell: each agent needs one"));
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::agents::{FleetSettings, OnLoss};

    use crate::Plan;

    const PLAN: &str = "schema = 1\ntitle = \"t\"\n[factors.rate]\nvalues = [\"max\", \"500\"]\n\
        level = \"sub-plot\"\n[design]\nblocks = 1\n[load]\ntarget = \"null:\"\nrate = \"{rate}\"\n\
        threads = 4\n[fleet]\nagents = 4\n[phases]\nmeasure = { time = \"2s\" }\n";

    fn read(text: &str) -> Result<Plan, String> {
        crate::read(text, "t.toml").map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_plan_names_its_fleet() {
        let plan = read(PLAN).unwrap();
        assert_eq!(plan.fleet(), Some(&FleetSettings::of(4)));
        assert!(plan.notes().iter().any(|note| note.text.contains("a fleet of 4 generates the load")));
        let listed =
            plan.resolved().iter().find(|key| key.key == "fleet.agents").map(|key| key.value.as_str());
        assert_eq!(listed, Some("4"));
        assert_eq!(read(&PLAN.replace("[fleet]\nagents = 4\n", "")).unwrap().fleet(), None);
        let text = "agents = 4\non_loss = \"degraded\"\nplace = [\"rack=a\", \"kind=gen=1\"]\nobservers = 2\nprobe = 2.5";
        let plan = read(&PLAN.replace("agents = 4", text)).unwrap();
        let place = [("kind", "gen=1"), ("rack", "a")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let (agents, on_loss, observers) = (4, OnLoss::Degraded, 2);
        let (place, probe_per_s) = (BTreeMap::from(place), Some(2.5));
        let expected = FleetSettings { agents, on_loss, place, observers, probe_per_s };
        assert_eq!(plan.fleet(), Some(&expected));
    }

    /// The unkind truth: each of these would be measured as something else, or would fail in every trial.
    #[test]
    fn what_a_fleet_cannot_generate_is_refused() {
        for (from, to, says) in [
            ("threads = 4", "threads = 3", "at most 3, the threads of a cell"),
            ("agents = 4", "", "`agents`"),
            ("agents = 4", "agents = 0", "from 1 to 1000"),
            ("agents = 4", "agents = 4\nroles = 1", "`roles`"),
            ("agents = 4", "agents = 4\non_loss = \"ignore\"", "one of \"invalid\", \"degraded\""),
            ("agents = 4", "agents = 4\nplace = [\"rack\"]", "labels such as \"rack=a\""),
            ("agents = 4", "agents = 4\nplace = [\"rack=\"]", "labels such as \"rack=a\""),
            ("agents = 4", "agents = 4\nplace = [\"r=a\", \"r=b\"]", "each name once"),
            ("null:", "exec:true", "that other machines can reach"),
            ("null:", "sqlite:{scratch}/x.db", "that other machines can reach"),
            (
                "[phases]",
                "[phases]\nwarm-up = { min = \"1s\", max = \"9s\", judge = [\"throughput\"] }",
                "no `phases.warm-up.judge`",
            ),
        ] {
            let text = PLAN.replace(from, to);
            assert_ne!(text, PLAN);
            let error = read(&text).unwrap_err();
            assert!(error.contains(says), "{from} -> {to}: {error}");
        }
        let shares = PLAN
            .replace("[factors.rate]\nvalues = [\"max\", \"500\"]\nlevel = \"sub-plot\"\n", "")
            .replace("\"{rate}\"", "[\"50%\"]");
        assert!(read(&shares).unwrap_err().contains("rates are found with one generator"));
    }
}
