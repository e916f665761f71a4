//! The page of a run that proved instruments.

use record::proof::{Proof, ProofVerdict};
use record::run::Run;

use super::{Block, Page, Section, Table, Tone, Words};
use crate::text::proofs::{cell, error, percent_of_cpu, reasons, remarks, totals, value};

/// Lays out the totals, the table, and the subjects that could not be proved.
pub(super) fn proofs(run: &Run, byline: Vec<String>, disclosure: Section) -> Page {
    let ours = |verdict: ProofVerdict| run.proofs.iter().filter(|p| p.ours && p.verdict() == verdict).count();
    let standing = match (ours(ProofVerdict::Fail), ours(ProofVerdict::Pass)) {
        (0, 0) => Words::toned("nothing proved", Tone::Doubt),
        (0, _) => Words::toned("proved", Tone::Good),
        _ => Words::toned("an instrument failed", Tone::Bad),
    };
    let mut table = Table::new(
        "Readings of each instrument for work with a known truth",
        &["workload", "instrument", "#truth", "#found", "#error", "#its CPU", "verdict"],
    );
    for proof in &run.proofs {
        table.row(vec![
            proof.workload.clone().into(),
            proof.instrument.clone().into(),
            cell(&proof.truth, |v| value(v, proof.unit)).into(),
            cell(&proof.found, |v| value(v, proof.unit)).into(),
            cell(&proof.error(), |v| error(v, proof.unit)).into(),
            cell(&proof.cost_ratio, percent_of_cpu).into(),
            verdict(proof),
        ]);
    }
    let told = |(text, what): (String, String)| format!("{what}: {text}");
    let notes: Vec<String> = reasons(&run.proofs).into_iter().chain(remarks(&run.proofs)).map(told).collect();
    let text = "Errors of shares are in percentage points. Verdicts in brackets are those of samplers and \
                external tools: shown for comparison, they decide nothing.";
    let mut blocks = vec![Block::Text(text.into()), Block::Table(table)];
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    Page {
        title: run.header.title.clone(),
        question: String::new(),
        standing,
        claim: totals(&run.proofs).join(". ") + ".",
        lead: Vec::new(),
        caveats: run.header.reason.iter().cloned().collect(),
        byline,
        sections: vec![Section { id: "proofs", title: "Proofs", blocks }],
        folded: vec![disclosure.folded("what was asked for, the machine")],
    }
}

fn verdict(proof: &Proof) -> Words {
    let word = proof.verdict().word();
    match (proof.ours, proof.verdict()) {
        (false, _) => format!("({word})").into(),
        (true, ProofVerdict::Pass) => Words::toned(word, Tone::Good),
        (true, ProofVerdict::Fail) => Words::toned(word, Tone::Bad),
        (true, ProofVerdict::Cannot) => Words::toned(word, Tone::Doubt),
    }
}
