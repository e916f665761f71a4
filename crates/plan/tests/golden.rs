//! Plans as files: sound ones are read whole, and each broken one says everything that is wrong with it, and where.

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
        insta::assert_debug_snapshot!((plan.estimate(), plan.notes(), plan.unbuilt(), plan.resolved()));
    });
}
