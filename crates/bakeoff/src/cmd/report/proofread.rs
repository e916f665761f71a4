//! `report --verify`: each number of a page against the archive.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use archive::Archive;
use record::run::RunId;
use report::proofread::{Differing, Proof, compare, readable};
use report::provenance::Provenance;
use serde_json::{Value, json};

use super::made::{Made, form_of, made};
use crate::cmd::{Global, of_archive, print_json};
use crate::confine::Reader;
use crate::exit::{EndsWith as _, Exit};
use crate::text_file;

/// Differences that are printed; `--json` has all.
const SHOWN: usize = 20;

pub(super) fn run(path: &Path, verbose: bool, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let form = form_of(path)?;
    global.confine(Reader::default().reads(path), "report", verbose)?;
    let page = text_file::read(path, text_file::DOCUMENT_BYTES_MAX);
    let page = page.ends_with(Exit::Usage).with_context(|| format!("reading {}", path.display()))?;
    let provenance =
        Provenance::of_page(&page).map_err(|why| Exit::Bad.with(format!("{}: {why}", path.display())))?;
    let archive = global.archive()?;
    let ids = provenance.runs.iter().map(|text| known(&archive, text)).collect::<anyhow::Result<Vec<_>>>()?;
    let checked = checksums(&archive, &ids)?;
    // Runs are compared as the page compares them; whether that was wise is not the question here.
    let given = made(&archive, &ids, Made { identify: provenance.identify, force: true, form })?;
    let proof = compare(&page, &given);
    let is_good = proof.differing.is_empty() && checked.damaged.is_empty();
    if global.json {
        print_json(out, &document(&provenance, &checked, &proof))?;
    } else {
        text(out, path, &provenance, &checked, &proof)?;
    }
    Ok(if is_good { Exit::Good } else { Exit::Bad })
}

fn known(archive: &Archive, text: &str) -> anyhow::Result<RunId> {
    let id: RunId = text
        .parse()
        .map_err(|_| Exit::Bad.with(format!("the page names `{text}`, which is not a run's id")))?;
    archive
        .find(&id.to_string())
        .map_err(of_archive)
        .context("looking for the page's runs: --archive names their archive")
}

/// Runs behind the page, and what is wrong with their files.
struct Checked {
    runs: usize,
    files: usize,
    damaged: Vec<String>,
}

fn checksums(archive: &Archive, ids: &[RunId]) -> anyhow::Result<Checked> {
    let mut all = ids.to_vec();
    for id in ids.iter().filter(|id| archive.is_bakeoff(**id)) {
        let bakeoff = archive.bakeoff(*id)?;
        // A page shows values of runs that are not sealed, too.
        all.extend(bakeoff.attempts.iter().filter_map(|a| a.run.as_ref()).map(|run| run.header.id));
    }
    let verified = archive.verify(&all)?;
    let damaged = verified.iter().flat_map(|v| &v.problems);
    Ok(Checked {
        runs: verified.len(),
        files: verified.iter().map(|v| v.files).sum(),
        damaged: damaged.map(|problem| format!("{}: {}", problem.path.display(), problem.what)).collect(),
    })
}

fn text(
    out: &mut dyn Write,
    path: &Path,
    provenance: &Provenance,
    checked: &Checked,
    proof: &Proof,
) -> anyhow::Result<()> {
    let here = env!("CARGO_PKG_VERSION");
    writeln!(out, " page     {}, written by bakeoff {}", path.display(), provenance.written_by)?;
    if provenance.written_by != here {
        writeln!(out, "          this is bakeoff {here}: words and layout may differ between versions")?;
    }
    let damaged = checked.damaged.len();
    writeln!(
        out,
        " archive  {} runs and bake-offs, {} files, {damaged} damaged",
        checked.runs, checked.files
    )?;
    for problem in &checked.damaged {
        writeln!(out, "  {problem}")?;
    }
    for Differing { place, page, archive } in proof.differing.iter().take(SHOWN) {
        let told = |text: &Option<String>| {
            text.as_deref().map_or("nothing".to_owned(), |t| format!("`{}`", readable(t)))
        };
        writeln!(out, " differs  {}: page {}, archive {}", readable(place), told(page), told(archive))?;
    }
    if proof.differing.len() > SHOWN {
        writeln!(out, "          and {} more; --json has all", proof.differing.len() - SHOWN)?;
    }
    let numbers = proof.numbers;
    match (proof.differing.len(), damaged, proof.same_bytes) {
        (0, 0, true) => {
            writeln!(
                out,
                "VALID: {numbers} texts with numbers match the archive, and so does every byte of the page"
            )?;
        }
        (0, 0, false) => writeln!(out, "VALID: {numbers} texts with numbers match the archive")?,
        (0, damaged, _) => writeln!(out, "INVALID: the archive is damaged in {damaged} places, 0 allowed")?,
        (n, ..) => writeln!(
            out,
            "INVALID: {n} {} from the archive, 0 allowed",
            if n == 1 { "text differs" } else { "texts differ" }
        )?,
    }
    Ok(out.flush()?)
}

fn document(provenance: &Provenance, checked: &Checked, proof: &Proof) -> Value {
    let differing =
        proof.differing.iter().map(|d| json!({"place": d.place, "page": d.page, "archive": d.archive}));
    json!({
        "schema": "bakeoff.report-verify/1",
        "runs": provenance.runs,
        "written_by": provenance.written_by,
        "files": checked.files,
        "damaged": checked.damaged,
        "numbers": proof.numbers,
        "same_bytes": proof.same_bytes,
        "differing": differing.collect::<Vec<_>>(),
    })
}
