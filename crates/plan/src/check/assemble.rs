//! Assembles a plan from its checked parts.

use record::agents::{FleetSettings, label};
use record::bakeoff::{Factor, Judge};

use crate::admission::Admission;
use crate::matrix::{Limits, owners};
use crate::parsed::{
    ParsedAdmission, ParsedFleet, ParsedPhases, ParsedPlan, ParsedPrepare, ParsedRun, ParsedServer,
    ParsedValue, ParsedVariable,
};
use crate::phases::{BuildPlan, PreparePlan, RunPlan, ValuePlan, Warmup};
use crate::plan::{Note, Plan};
use crate::server::{ClientCpus, EnvPlan, MemoryLayout, ServerPlan};
use crate::sha256::sha256;
use crate::slices::Slices;

/// Parts that are checked separately.
pub(super) struct Parts {
    pub(super) factors: Vec<Factor>,
    pub(super) limits: Limits,
    pub(super) judge: Judge,
    pub(super) remarks: Vec<Note>,
    pub(super) unsupported: Vec<Note>,
    pub(super) slices: Option<Slices>,
}

/// Assembles the plan. `None` only if a part is missing, which was noted when it was read.
pub(super) fn assemble(parsed: ParsedPlan, text: &str, name: &str, parts: Parts) -> Option<Plan> {
    let ParsedPlan { design, phases, .. } = parsed;
    Some(Plan {
        name: name.to_owned(),
        text: text.to_owned(),
        sha256: sha256(text),
        title: parsed.title?.value,
        question: parsed.question.map(|q| q.value).unwrap_or_default(),
        blocks: design.blocks?.value,
        seed: design.seed?.value,
        slices: parts.slices,
        time_budget: design.time_budget.map(|b| b.value),
        build: match parsed.build {
            Some(build) => Some(BuildPlan {
                run: run(build.run)?,
                source: build.source.map(|source| source.value),
                revision: build.revision,
                env: build.env.map(|env| env.value).unwrap_or_default(),
            }),
            None => None,
        },
        admission: parsed.admission.as_ref().and_then(admission),
        load: parsed.load.whole()?,
        fleet: match parsed.fleet {
            Some(fleet) => Some(self::fleet(fleet)?),
            None => None,
        },
        client: match parsed.client {
            Some(client) => Some(ClientCpus { cpus: client.cpus.value, pinned: client.pin?.value }),
            None => None,
        },
        server: match parsed.server {
            Some(server) => Some(self::server(server, &parts.factors)?),
            None => None,
        },
        factors: parts.factors,
        limits: parts.limits,
        warmup: warmup(&phases)?,
        measure: phases.measure.as_ref()?.value,
        interval: phases.interval.as_ref()?.value,
        cooldown: phases.cooldown.as_ref()?.value,
        setup: match phases.setup {
            Some(setup) => Some(run(setup)?),
            None => None,
        },
        verify: match phases.verify {
            Some(verify) => Some(run(verify)?),
            None => None,
        },
        prepare: match phases.prepare? {
            ParsedPrepare::Builtin => PreparePlan::Builtin,
            ParsedPrepare::Nothing => PreparePlan::Nothing,
            ParsedPrepare::Run(command) => PreparePlan::Run(run(command)?),
        },
        instruments: parsed.instruments?.value,
        control_arm: parsed.control_arm?.value,
        values: parsed.values.into_iter().map(value).collect::<Option<_>>()?,
        judge: parts.judge,
        sponsor: parsed.sponsor.map(|s| s.value),
        tuning: parsed.tuning.map(|t| t.value),
        notes_path: parsed.notes.map(|n| n.value),
        resolved: parsed.resolved,
        remarks: parts.remarks,
        unsupported: parts.unsupported,
        shortened: false,
        found: std::collections::BTreeMap::new(),
        built: std::collections::BTreeMap::new(),
        against_itself: None,
    })
}

fn admission(parsed: &ParsedAdmission) -> Option<Admission> {
    Some(Admission {
        busy_ratio_max: parsed.busy.as_ref()?.value,
        free_bytes_min: parsed.free.as_ref()?.value,
        wait: parsed.wait.as_ref()?.value,
        otherwise: parsed.otherwise.as_ref()?.value,
    })
}

fn fleet(parsed: ParsedFleet) -> Option<FleetSettings> {
    let labels = parsed.place.map(|place| place.value).unwrap_or_default();
    Some(FleetSettings {
        agents: parsed.agents.value,
        on_loss: parsed.on_loss?.value,
        observers: parsed.observers?.value,
        probe_per_s: parsed.probe.map(|probe| probe.value),
        place: labels.iter().map(|text| label(text)).collect::<Option<_>>()?,
    })
}

fn server(parsed: ParsedServer, factors: &[Factor]) -> Option<ServerPlan> {
    let environment = |e: ParsedVariable| EnvPlan {
        only: e.only.and_then(|only| owners(&only.value, factors).pop()),
        name: e.name,
        value: e.value,
    };
    // Variables of all configurations come first: those of a single configuration override them.
    let (general, particular): (Vec<_>, Vec<_>) = parsed.env.into_iter().partition(|e| e.only.is_none());
    Some(ServerPlan {
        command: parsed.command?,
        ready: parsed.ready?,
        ready_timeout: parsed.ready_timeout?.value,
        stop: parsed.stop?.value,
        stop_timeout: parsed.stop_timeout?.value,
        instances: parsed.instances?,
        cpus: parsed.cpus,
        mem: parsed.mem,
        nice: parsed.nice?,
        memory: MemoryLayout {
            address_space: parsed.address_space?.value,
            huge_pages: parsed.huge_pages?.value,
        },
        cpu_max: parsed.cpu_max.map(|cpus| cpus.value),
        memory_max: parsed.memory_max.map(|bytes| bytes.value),
        files: parsed.files.into_iter().map(|file| (file.name.value, file.text)).collect(),
        scheduler: parsed.scheduler?,
        user: parsed.user.map(|user| user.value),
        inherit_env: parsed.inherit_env?.value,
        environment: general.into_iter().chain(particular).map(environment).collect(),
    })
}

fn value(parsed: ParsedValue) -> Option<ValuePlan> {
    Some(ValuePlan {
        name: parsed.name.value,
        run: run(parsed.run)?,
        when: parsed.when?.value,
        keep: parsed.keep.map(|keep| keep.value),
    })
}

fn run(parsed: ParsedRun) -> Option<RunPlan> {
    Some(RunPlan { run: parsed.run?, timeout: parsed.timeout?.value, retries: parsed.retries?.value })
}

/// The warm-up; `None` if a part is missing, as in [`assemble`].
pub(super) fn warmup(phases: &ParsedPhases) -> Option<Warmup> {
    Some(Warmup {
        min: phases.warmup_min.as_ref()?.value,
        max: phases.warmup_max.as_ref().map(|max| max.value),
        judge: phases.warmup_judge.as_ref().map(|judge| judge.value.clone()).unwrap_or_default(),
    })
}
