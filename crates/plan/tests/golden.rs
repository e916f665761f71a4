//! Golden files of plans: valid ones are read completely; each invalid one lists all its problems and their
//! positions.

use std::path::Path;

fn read(path: &Path) -> Result<bakeoff_plan::Plan, bakeoff_plan::PlanErrors> {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    bakeoff_plan::read(&std::fs::read_to_string(path).expect("the test data is there"), &name)
}

#[test]
fn every_broken_plan_tells_all_its_problems_with_their_places() {
    insta::glob!("../testdata/bad", "*.toml", |path| {
        let errors = read(path).expect_err("the plan is broken");
        insta::assert_snapshot!(errors);
    });
}

#[test]
fn every_sound_plan_resolves_to_what_it_says() {
    insta::glob!("../testdata/good", "*.toml", |path| {
        let plan = read(path).expect("the plan is sound");
        insta::assert_debug_snapshot!((plan.estimate(), plan.notes(), plan.unsupported(), plan.resolved()));
    });
}

/// An independent program drew `testdata/order.txt`: the key stream came from `openssl enc -chacha20`, and
/// the rest was written from `docs/plans.md` alone.
#[test]
fn the_order_is_the_one_that_others_draw() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let plan = read(&folder.join("good/model.toml")).expect("the plan is sound");
    let line = |t: record::bakeoff::Trial| {
        format!("{} {} {}\n", t.block, t.levels["allocator"], t.levels["threads"])
    };
    let drawn: String = plan.trials().into_iter().map(line).collect();
    assert_eq!(drawn, std::fs::read_to_string(folder.join("order.txt")).unwrap());
}

#[test]
fn the_schema_of_a_plan_is_the_one_that_was_reviewed() {
    insta::assert_snapshot!(bakeoff_plan::json_schema());
}

/// `docs/plans.md` describes everything that the reader accepts. Like the other golden files it is rewritten
/// if `INSTA_UPDATE` requests it.
#[test]
fn the_documentation_has_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plans.md");
    let text = std::fs::read_to_string(&path).expect("the documentation is part of the project");
    let begin = text.find(BEGIN).expect("the tables begin") + BEGIN.len();
    let end = text.find(END).expect("the tables end");
    let tables = format!("\n{}", bakeoff_plan::documentation());
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        std::fs::write(&path, format!("{}{tables}{}", &text[..begin], &text[end..])).unwrap();
    } else {
        assert_eq!(text[begin..end], tables, "docs/plans.md is not what the reader does: run `make golden`");
    }
}
const BEGIN: &str = "<!-- keys: begin -->";
const END: &str = "<!-- keys: end -->";

#[test]
fn a_plan_against_itself_has_its_reference_twice_and_its_own_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let plan = read(&folder.join("good/model.toml")).expect("the plan is sound");
    let (first, second) = (plan.against_itself(1), plan.against_itself(2));
    let trials = first.trials();
    let factor = plan.factors().iter().find(|f| f.reference.is_some()).expect("it compares a factor");
    assert!(trials.iter().all(|t| Some(&t.levels[&factor.name]) == factor.reference.as_ref()));
    let of = |copy: &str| trials.iter().filter(|t| t.levels["copy"] == copy).count();
    assert_eq!((of("a"), of("b")), (trials.len() / 2, trials.len() / 2));
    assert_eq!((first.text(), first.repetition()), (plan.text(), Some(1)));
    assert_ne!(trials, second.trials(), "each repetition has another order");
    assert_eq!(trials, plan.against_itself(1).trials());
    assert!(first.gates().is_empty());
}
